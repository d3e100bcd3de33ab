"""Saving costs the same after many episodes as after a few: what grows is in files of its own."""

from __future__ import annotations

import json

import numpy as np
import pytest
import stable_baselines3.common.monitor as sb3_monitor

from faults.episodes import Blink, check_sizes, make_env, train_episodes
from proximo import PPO, make_vec_env
from proximo.envs import DummyVecEnv, Monitor
from proximo.errors import ProximoError
from proximo.files.append_only import LogPositionError, cut_back, place_in
from proximo.training.callbacks import EvalCallback
from proximo.training.checkpoints import PeriodicCheckpoints
from proximo.training.loggers import configure


@pytest.mark.filterwarnings("ignore:the environments already have a Monitor")
def test_checkpoints_do_not_grow_and_what_they_leave_out_is_in_the_files(tmp_path):
    files, _ = train_episodes(tmp_path, 8, 8 * 64 * 12, 8 * 64 * 4)
    first, last = 8 * 64 * 4, 8 * 64 * 12
    check_sizes(files, first, last)
    logged = {path.name: path.read_bytes() for path in tmp_path.glob("*.csv")}
    evaluated = dict(np.load(tmp_path / "evaluations.npz"))
    with (tmp_path / "3.monitor.csv").open("a") as file:
        file.write("0.5,1,")  # killed in the middle of a row
    env = make_env(tmp_path, 8)
    again = PPO.load(files[first], env=env)
    again.set_logger(configure(tmp_path, ["csv", "json", "log"], resume=True))
    callback = EvalCallback(
        make_vec_env(Blink, 1), eval_freq=64, n_eval_episodes=30, log_path=str(tmp_path), verbose=0, warn=False
    )
    again.resume(callback=[PeriodicCheckpoints(tmp_path / "c2"), callback])
    again.logger.close()
    for name, data in logged.items():
        if "monitor" in name:  # times differ
            rows, expected = ((text.splitlines()) for text in ((tmp_path / name).read_text(), data.decode()))
            assert [row.rpartition(",")[0] for row in rows[2:]] == [row.rpartition(",")[0] for row in expected[2:]]
    assert len((tmp_path / "3.monitor.csv").read_text().splitlines()) == 2 + 64 * 12
    found = np.load(tmp_path / "evaluations.npz")
    assert {name: found[name].tolist() for name in found} == {name: part.tolist() for name, part in evaluated.items()}
    assert len((tmp_path / "evaluations.jsonl").read_text().splitlines()) == 12
    assert len(env.get_attr("episode_returns", 0)[0]) == 100 + 64 * 8


# ----------------------------------------------------------------------------------------------------------- places


def test_a_file_that_is_not_what_it_was_is_noticed(tmp_path):
    path = tmp_path / "log"
    with path.open("a+") as file:
        file.write("x" * 5000)
        place = place_in(file)
        file.write("later")
        cut_back(file, place)
    assert path.read_text() == "x" * 5000
    assert len(json.dumps(place)) < 120
    path.write_text("x" * 4999 + "y")
    with path.open("a+") as file, pytest.raises(LogPositionError, match=r"holds other text before byte 5000"):
        cut_back(file, place)
    path.write_text("x" * 10)
    with path.open("a+") as file, pytest.raises(LogPositionError, match=r"holds 10 bytes, fewer than the 5000 bytes"):
        cut_back(file, place)


def test_a_monitor_file_stays_until_the_first_episode_of_another_training(tmp_path):
    def episode(env):
        env.reset()
        env.step(0)

    first = Monitor(Blink(), str(tmp_path / "a"))
    episode(first)
    first.close()
    before = (tmp_path / "a.monitor.csv").read_text()
    second = Monitor(Blink(), str(tmp_path / "a"))
    state = second.get_state()
    assert (tmp_path / "a.monitor.csv").read_text() == before
    episode(second)
    assert (tmp_path / "a.monitor.csv").read_text() != before
    assert len((tmp_path / "a.monitor.csv").read_text().splitlines()) == 3
    second.close()
    third = Monitor(Blink(), str(tmp_path / "a"))
    third.set_state(state)  # of before its first episode
    episode(third)
    assert len((tmp_path / "a.monitor.csv").read_text().splitlines()) == 3


def test_a_monitor_file_that_is_gone_is_an_error_that_says_what_to_do(tmp_path):
    env = DummyVecEnv([lambda: Monitor(Blink(), str(tmp_path / "a"))])
    env.reset()
    env.step([0])
    state = env.get_state()
    env.close()
    (tmp_path / "a.monitor.csv").unlink()
    with pytest.raises(ProximoError, match=r"a\.monitor\.csv holds .* fewer than .* bring the file back"):
        DummyVecEnv([lambda: Monitor(Blink(), str(tmp_path / "a"))]).set_state(state)


def test_the_state_of_the_other_librarys_monitor_is_bounded_too():
    env = DummyVecEnv([lambda: sb3_monitor.Monitor(Blink())])
    env.reset()
    for _ in range(150):
        env.step([0])
    (layer, _) = env.get_state()["environments"][0]
    assert {len(layer["state"][name]) for name in ("episode_returns", "episode_lengths", "episode_times")} == {100}
