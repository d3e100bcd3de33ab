"""Environments and workers that die or hang: the cause is told, or training goes on; nothing is left behind."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from faults.failing_envs import (
    DEATHS,
    HANGS,
    CrashingProbe,
    FailingEnv,
    assert_nothing_left,
    descendants,
    make_tokens,
    running,
)
from proximo import PPO, MaskablePPO, make_vec_env
from proximo.envs import SubprocVecEnv, VecMonitor
from proximo.envs.workers.subproc import WorkerDiedError
from proximo.envs.workers.supervision import RestartPolicy
from proximo.errors import EnvWorkerError

TIMEOUT = 0.3  # seconds
CAUSES = {
    "exception": "ValueError: the pole broke",
    "exit": "ended with exit code 7 while environment {index} was at work",
    "SIGSEGV": "was killed by signal SIGSEGV while environment {index} was at work",
    "SIGKILL": "was killed by signal SIGKILL while environment {index} was at work",
    "closed pipe": "closed its pipe without ending while environment {index} was at work",
} | dict.fromkeys(HANGS, "environment {index} did not come back within 0.3 s")


@pytest.fixture(autouse=True)
def nothing_left_behind():
    before = descendants()
    yield
    assert_nothing_left(before)


def make(tokens, kind="exception", where="step", failing=1, start_method="fork", **settings):
    """Four environments in two workers, one of them failing."""
    factories = [FailingEnv] * 4
    factories[failing] = partial(FailingEnv, kind, tokens, where)
    timeouts = {"step_timeout": TIMEOUT, "reset_timeout": TIMEOUT} if kind in HANGS else {}
    env = SubprocVecEnv(factories, start_method, envs_per_worker=2, **(timeouts | settings))
    env.seed(10)
    return env


def run_until_failure(env, steps=5):
    env.reset()
    for _ in range(steps):
        env.step_arrays([0] * 4)


def trial_raise(tokens, kind, where="step", failing=1, start_method="fork"):
    """The error names the environment and the cause, and everything is closed."""
    before = descendants()
    env = make(tokens, kind, where, failing, start_method)
    with pytest.raises(EnvWorkerError) as caught:
        run_until_failure(env)
    text = str(caught.value)
    assert CAUSES[kind].format(index=failing) in text
    assert re.search(rf"environments? {failing if kind in ('exception', *HANGS) else failing // 2 * 2}\b", text)
    if kind == "exception":
        assert "failing_envs.py" in text  # the worker's own traceback
        assert not isinstance(caught.value, WorkerDiedError)
    assert env.closed
    assert_nothing_left(before)


def trial_restart(tokens, kind, failing=1, start_method="fork"):
    """The lost segment is cut off, the others go on, and so does the failed environment, with another seed."""
    before = descendants()
    env = make(tokens, kind, "step", failing, start_method, on_env_failure="restart")
    env.reset()
    for _ in range(3):
        env.step_arrays([0] * 4)
    with pytest.warns(RuntimeWarning, match=re.escape(CAUSES[kind].format(index=failing))) as caught:
        step = env.step_arrays([1] * 4)
    assert "restart 1 of at most 100" in str(caught[0].message)
    lost = [failing] if kind == "exception" else [failing // 2 * 2, failing // 2 * 2 + 1]
    kept = [index for index in range(4) if index not in lost]
    for index in lost:
        assert (step.rewards[index], step.terminated[index], step.truncated[index]) == (0.0, False, True)
        np.testing.assert_array_equal(step.final_observations[index], [10 + index, 3])  # seen before the failed step
        assert CAUSES[kind].format(index=failing) in step.infos[index]["env_failure"]
        assert step.observations[index, 1] == 0
        assert step.observations[index, 0] not in (-1, 10 + index)  # a fresh seed
        assert env.reset_infos[index]["seed"] == step.observations[index, 0]
    assert list(step.infos) == lost
    np.testing.assert_array_equal(step.valid, [index in kept for index in range(4)])
    np.testing.assert_array_equal(step.rewards[kept], 1.0)
    np.testing.assert_array_equal(step.observations[kept], [[10 + index, 4] for index in kept])
    for number in range(1, 6):
        step = env.step_arrays([0] * 4)
        assert step.valid is None
        assert not step.truncated.any()
        np.testing.assert_array_equal(step.observations[lost, 1], number)
        np.testing.assert_array_equal(step.observations[kept, 1], 4 + number)
    seeds = step.observations[:, 0].copy()
    env.close()
    assert_nothing_left(before)
    return seeds


@pytest.mark.parametrize("kind", [*DEATHS, "closed pipe"])
def test_a_death_in_a_step(kind, tmp_path, tally):
    with tally.case("worker deaths: raise"):
        trial_raise(make_tokens(tmp_path / "raise", 1), kind)
    with tally.case("worker deaths: restart"):
        trial_restart(make_tokens(tmp_path / "restart", 1), kind)


@pytest.mark.parametrize("kind", ["sleep"])
def test_a_hang_in_a_step(kind, tmp_path, tally):
    with tally.case("hangs: raise"):
        trial_raise(make_tokens(tmp_path / "raise", 1), kind)
    with tally.case("hangs: restart"):
        trial_restart(make_tokens(tmp_path / "restart", 1), kind, failing=2)


@pytest.mark.slow
def test_a_hundred_deaths(tmp_path, tally):
    draw = np.random.default_rng(0)
    for number in range(100):
        kind, failing = DEATHS[number % 4], int(draw.integers(4))
        start_method = "forkserver" if number % 5 == 0 else "fork"
        tokens = make_tokens(tmp_path / str(number), 1)
        if number // 4 % 2:
            with tally.case("worker deaths: raise"):
                trial_raise(tokens, kind, failing=failing, start_method=start_method)
        else:
            with tally.case("worker deaths: restart"):
                trial_restart(tokens, kind, failing, start_method)


@pytest.mark.slow
def test_forty_hangs(tmp_path, tally):
    draw = np.random.default_rng(0)
    for number in range(40):
        kind, failing = HANGS[number % 3], int(draw.integers(4))
        tokens = make_tokens(tmp_path / str(number), 1)
        if number % 2:
            with tally.case("hangs: raise"):
                trial_raise(tokens, kind, ("step", "reset")[number // 2 % 2], failing)
        else:
            with tally.case("hangs: restart"):
                trial_restart(tokens, kind, failing)


@pytest.mark.slow
def test_a_hang_is_found_within_a_second_of_the_timeout(tmp_path):
    """The one promise that is a time."""
    env = make(make_tokens(tmp_path / "tokens", 1), "deaf")
    env.reset()
    for _ in range(3):
        env.step_arrays([0] * 4)
    start = time.monotonic()
    with pytest.raises(WorkerDiedError):
        env.step_arrays([0] * 4)
    assert time.monotonic() - start < TIMEOUT + 1


def test_the_seed_of_a_restart_follows_from_the_run(tmp_path):
    seeds = [trial_restart(make_tokens(tmp_path / str(run), 1), "exit") for run in range(2)]
    np.testing.assert_array_equal(*seeds)


@pytest.mark.parametrize("where", ["reset", "constructor"])
def test_failures_of_resets_and_of_the_making(where, tmp_path):
    tokens = make_tokens(tmp_path / "tokens", 0 if where == "constructor" else 2)
    env = make(tokens, "exception" if where == "reset" else "exit", where, on_env_failure="restart")
    if where == "constructor":  # the worker dies, and then two times the one that is to replace it
        (tokens / "0").touch(), (tokens / "1").touch()
        env.processes[0].kill()
        env.processes[0].join()
    with pytest.warns(RuntimeWarning, match="restart 2 of at most 100"):
        observations = env.reset()
    np.testing.assert_array_equal(observations[:, 1], 0)
    np.testing.assert_array_equal(observations[2:, 0], [12, 13])
    assert observations[1, 0] not in (-1, 11)
    assert not list(tokens.iterdir())
    for _ in range(3):
        assert env.step_arrays([0] * 4).valid is None
    env.close()


def test_an_end_stays_an_end_when_the_reset_after_it_fails(tmp_path):
    tokens = make_tokens(tmp_path / "tokens", 0)
    env = make(tokens, where="reset", on_env_failure="restart")
    env.reset()
    for _ in range(9):
        env.step_arrays([0] * 4)
    (tokens / "0").touch()
    with pytest.warns(RuntimeWarning, match="environment 1 failed"):
        observations, rewards, dones, infos = env.step([0] * 4)
    assert dones.all()
    assert rewards.tolist() == [1.0] * 4
    np.testing.assert_array_equal(infos[1]["terminal_observation"], [11, 10])
    assert "ValueError" in infos[1]["env_failure"]
    assert "env_failure" not in infos[0]
    np.testing.assert_array_equal(observations[:, 1], 0)
    assert not env.step([0] * 4)[2].any()
    env.close()


def test_restarts_are_bounded(tmp_path):
    env = make(make_tokens(tmp_path / "tokens", 10), on_env_failure="restart", max_restarts=2)
    words = "environment 1 failed once more after max_restarts=2 restarts: .*ValueError"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(EnvWorkerError, match=words):
            run_until_failure(env, 20)
    counts = [re.search(r"restart \d", str(warning.message)).group() for warning in caught]
    assert counts == ["restart 1", "restart 2"]
    assert env.closed


def test_restarts_are_bounded_within_an_hour(tmp_path):
    env = make(make_tokens(tmp_path / "tokens", 10), on_env_failure="restart", restarts_per_hour=2)
    words = "environment 1 failed 3 times within an hour, more than restarts_per_hour=2: .*ValueError"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(EnvWorkerError, match=words):
            run_until_failure(env, 20)
    assert env.closed


def test_restarts_of_hours_ago_do_not_count():
    policy, moment = RestartPolicy(2, "restart", max_restarts=100, restarts_per_hour=5), [0.0]
    policy.clock = lambda: moment[0]
    cause = EnvWorkerError("a crash")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for hour in range(4):
            moment[0] = 3600.0 * hour
            for _ in range(5):
                policy.allow([1], cause)
        policy.allow([0], cause)  # each has its own
        with pytest.raises(EnvWorkerError, match="failed 6 times within an hour"):
            policy.allow([0, 1], cause)


@pytest.mark.parametrize("ask", ["get_attr", "step"])
def test_a_worker_killed_between_steps_is_replaced(ask):
    env = make(None, on_env_failure="restart")
    run_until_failure(env, 2)
    env.processes[0].kill()
    env.processes[0].join()
    if ask == "get_attr":
        with pytest.warns(RuntimeWarning, match="environments 0 to 1 made again"):
            assert env.get_attr("steps") == [0, 0, 2, 2]
    with pytest.warns(RuntimeWarning) if ask == "step" else contextlib.nullcontext():
        step = env.step_arrays([0] * 4)
    assert step.truncated.tolist() == [True, True, False, False]
    np.testing.assert_array_equal(step.final_observations[0], [10, 2])
    np.testing.assert_array_equal(env.step_arrays([0] * 4).observations[:, 1], [1, 1, 4, 4])
    env.close()


def test_masks_follow_a_restart(tmp_path):
    env = make(make_tokens(tmp_path / "tokens", 1), "exit", on_env_failure="restart")
    env.reset()
    masks = env.action_masks()
    for _ in range(3):
        env.step_arrays([0] * 4)
    assert masks[:, 1].tolist() == [False] * 4
    with pytest.warns(RuntimeWarning):
        env.step_arrays([0] * 4)
    assert masks[:, 1].tolist() == [True] * 4
    env.step_arrays([0] * 4)
    assert masks[:, 1].tolist() == [False] * 4
    env.close()


def test_monitor_files_are_continued(tmp_path):
    tokens = make_tokens(tmp_path / "tokens", 0)
    env = make_vec_env(
        partial(FailingEnv, "exit", tokens),
        2,
        monitor_dir=tmp_path,
        vec_env_cls=SubprocVecEnv,
        vec_env_kwargs={"start_method": "fork", "on_env_failure": "restart"},
    )
    env.reset()
    for _ in range(10):
        env.step_arrays([0] * 2)
    (tokens / "0").touch()
    for _ in range(3):
        env.step_arrays([0] * 2)
    with pytest.warns(RuntimeWarning):
        assert env.step_arrays([0] * 2).truncated.any()
    for _ in range(10):
        env.step_arrays([0] * 2)
    env.close()
    for index in range(2):
        rows = (tmp_path / f"{index}.monitor.csv").read_text().splitlines()[2:]
        assert [row.split(",")[1] for row in rows] == ["10", "10"]  # one before the crash, one after it


def test_a_broken_episode_is_not_counted(tmp_path):
    env = VecMonitor(make(make_tokens(tmp_path / "tokens", 1), on_env_failure="restart"))
    env.reset()
    for _ in range(3):
        env.step_arrays([0] * 4)
    with pytest.warns(RuntimeWarning):
        assert "episode" not in env.step_arrays([0] * 4).infos[1]
    ends = []
    for _ in range(10):
        ends += [(index, info["episode"]["l"]) for index, info in env.step_arrays([0] * 4).infos.items()]
    assert ends == [(0, 10), (2, 10), (3, 10), (1, 10)]
    assert env.episode_count == 4
    env.close()


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_the_rollout_of_a_failure(backend, tmp_path):
    """The failed step does not train, and the step before is worth what was then seen."""
    env = make(make_tokens(tmp_path / "tokens", 1), on_env_failure="restart")
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=16, n_epochs=1, seed=0, gamma=0.5, backend=backend)
    with pytest.warns(RuntimeWarning, match="environment 1 failed"):
        model.learn(32)
    rollout = model.rollout_buffer.rollout
    assert np.argwhere(~rollout.valid).tolist() == [[3, 1]]
    assert rollout.truncated[:, 1].nonzero()[0].tolist() == [2, 3]
    advantages = model.rollout_buffer.advantages
    expected = 1.0 + 0.5 * rollout.values[3, 1] - rollout.values[2, 1]
    assert advantages[2, 1] == pytest.approx(expected, abs=1e-6)
    assert rollout.rewards[3, 1] == 0.0
    assert len(model.ep_info_buffer) == 0
    env.close()


def test_masked_training_goes_on(tmp_path):
    tokens = make_tokens(tmp_path / "tokens", 1)
    env = make_vec_env(
        partial(FailingEnv, "SIGKILL", tokens),
        2,
        seed=0,
        vec_env_cls=SubprocVecEnv,
        vec_env_kwargs={"start_method": "fork", "on_env_failure": "restart"},
    )
    model = MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, seed=0)
    with pytest.warns(RuntimeWarning, match="SIGKILL"):
        model.learn(64)
    assert model.num_timesteps == 64
    env.close()


def test_learning_among_crashes():
    """With one step in a hundred lost, values are what they are without: no data are made up."""
    env = make_vec_env(
        CrashingProbe,
        16,
        seed=0,
        vec_env_cls=SubprocVecEnv,
        vec_env_kwargs={
            "start_method": "fork",
            "on_env_failure": "restart",
            "max_restarts": 1000,
            "restarts_per_hour": None,
        },
    )
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=16,
        batch_size=64,
        n_epochs=4,
        learning_rate=3e-3,
        gamma=0.5,
        policy_kwargs={"net_arch": [16]},
        seed=0,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.learn(10_000)
    env.close()
    assert len([warning for warning in caught if "made again" in str(warning.message)]) > 50
    with torch.no_grad():
        values = model.policy.predict_values(torch.tensor([[0.0], [1.0]])).flatten().tolist()
    assert values == pytest.approx([0.5, 1.0], abs=0.03)


@pytest.mark.slow
def test_closing_does_not_wait_for_a_hung_worker(tmp_path):
    env = make(make_tokens(tmp_path / "tokens", 1), "deaf", step_timeout=None)
    env.reset()
    for _ in range(3):
        env.step_arrays([0] * 4)
    env.step_async([0] * 4)
    env.close()
    assert not any(process.is_alive() for process in env.processes)


PARENT = """
import os, signal, sys
from functools import partial
sys.path.insert(0, sys.argv[1])
from faults.failing_envs import FailingEnv, make_tokens
from multiprocessing import forkserver
from pathlib import Path
from proximo.envs import SubprocVecEnv

if __name__ == "__main__":
    _, _, tokens, end, start_method, kind = sys.argv
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
    factory = partial(FailingEnv, kind, make_tokens(Path(tokens), 1))
    env = SubprocVecEnv([FailingEnv, factory, FailingEnv], start_method, envs_per_worker=1)
    env.reset()
    for _ in range(3):
        env.step_arrays([0] * 3)
    helper = forkserver._forkserver._forkserver_pid
    print(*[process.pid for process in env.processes], *([helper] if helper else []), flush=True)
    if end == "exception":
        raise ValueError("an end like others")
    if end == "exit":
        sys.exit(3)
    env.step_arrays([0] * 3)  # one of them is busy for ever
"""


def parent_ends(folder: Path, end: str, start_method: str, kind: str = "busy") -> None:
    """A program with a hung worker ends in some way: its workers and their server end too."""
    script = folder / "parent.py"
    script.write_text(PARENT)
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, str(script), tests, str(folder / "tokens"), end, start_method, kind]
    before = set(Path("/dev/shm").glob("proximo-*"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert len(workers) == (4 if start_method == "forkserver" else 3), parent.stderr.read()
        if end.startswith("SIG"):
            time.sleep(0.3)  # into the step
            parent.send_signal(getattr(signal, end))
        parent.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while any(running(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(running(pid) for pid in workers)
    assert not set(Path("/dev/shm").glob("proximo-*")) - before


def test_workers_end_with_a_killed_parent(tmp_path, tally):
    with tally.case("ends of the parent"):
        parent_ends(tmp_path, "SIGKILL", "forkserver")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_worker_in_foreign_code_ends_with_a_killed_parent(tmp_path, tally):
    with tally.case("ends of the parent"):
        parent_ends(tmp_path, "SIGKILL", "forkserver", "locked")


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("end", ["SIGKILL", "SIGINT", "SIGTERM", "exit", "exception"])
def test_workers_end_with_their_parent(end, start_method, tmp_path, tally):
    with tally.case("ends of the parent"):
        parent_ends(tmp_path, end, start_method)


def test_wrong_settings():
    with pytest.raises(ValueError, match="'raise' or 'restart', got 'retry'"):
        make(None, on_env_failure="retry")
    with pytest.raises(ValueError, match="step_timeout must be a positive number of seconds or None, got 0"):
        make(None, step_timeout=0)
    with pytest.raises(ValueError, match="max_restarts must be at least 0, got -1"):
        make(None, max_restarts=-1)
    with pytest.raises(ValueError, match="restarts_per_hour must be at least 1, or None for no limit, got 0"):
        make(None, restarts_per_hour=0)
