"""Checkpoints: what they hold, when they are taken, which are kept, and that training goes on exactly from them."""

from __future__ import annotations

import csv
import shutil
from itertools import count
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from proximo import PPO, make_vec_env
from proximo.envs import VecFrameStack, VecNormalize
from proximo.errors import EnvironmentStateError, ModelFileError, NonFiniteError
from proximo.training.callbacks import (
    BaseCallback,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
    StopTrainingOnMaxEpisodes,
)
from proximo.training.checkpoints import CheckpointFolder, NoCheckpointError, PeriodicCheckpoints
from proximo.training.log_formats import CSVOutputFormat, LogPositionError
from proximo.training.loggers import configure

CLOCK = ("time/fps", "time/time_elapsed")
SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2}


class Walk(gym.Env[Any, Any]):
    """A random walk that knows nothing of states."""

    observation_space = gym.spaces.Box(-20.0, 20.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return self.np_random.normal(size=1).astype(np.float32), 1.0, False, self.steps == 9, {}


def make_model(env=None, **options):
    env = make_vec_env("CartPole-v1", 2, seed=1) if env is None else env
    return PPO("MlpPolicy", env, **({"seed": 3} | SMALL | options))


def weights(model):
    return torch.cat([value.flatten() for value in model.policy.state_dict().values()]).clone()


def rows(folder):
    found = list(csv.DictReader((folder / "progress.csv").open()))
    return [{key: value for key, value in row.items() if key not in CLOCK} for row in found]


def learn_straight(model, folder, steps, callbacks, **options):
    model.set_logger(configure(folder, ["csv", "json", "log"]))
    model.learn(steps, callback=callbacks, **options)
    model.logger.close()
    return model


def resume(algorithm, checkpoint, env, folder, callbacks, **options):
    model = algorithm.load(checkpoint, env=env)
    model.set_logger(configure(folder, ["csv", "json", "log"], resume=True))
    model.resume(callback=callbacks, **options)
    model.logger.close()
    return model


# -------------------------------------------------------------------------------------------------------- exactness


def test_wrappers_callbacks_and_windows_resume_exactly(tmp_path):
    def env():
        return VecNormalize(VecFrameStack(make_vec_env("Pendulum-v1", 2, seed=1), 3))

    def callbacks():
        return [PeriodicCheckpoints(tmp_path / "c", every_steps=64, keep_last=9)]

    straight = learn_straight(make_model(env(), stats_window_size=7), tmp_path / "log", 1024, callbacks())
    expected = rows(tmp_path / "log")
    wrapper = env()
    again = resume(PPO, tmp_path / "c" / "model_960_steps.zip", wrapper, tmp_path / "log", callbacks())
    assert rows(tmp_path / "log") == expected
    assert [episode["r"] for episode in again.ep_info_buffer] == [episode["r"] for episode in straight.ep_info_buffer]
    assert len(again.ep_info_buffer) > 2
    np.testing.assert_array_equal(wrapper.obs_rms.mean, straight.get_vec_normalize_env().obs_rms.mean)
    np.testing.assert_array_equal(again._last_obs, straight._last_obs)


def test_evaluations_resume_with_their_environment(tmp_path):
    def callbacks():
        env = make_vec_env("CartPole-v1", 1, seed=8)
        evaluation = EvalCallback(env, eval_freq=24, n_eval_episodes=2, log_path=str(tmp_path), verbose=0)
        return [PeriodicCheckpoints(tmp_path / "c", every_steps=64, keep_last=9), evaluation]

    learn_straight(make_model(), tmp_path / "log", 256, callbacks())
    expected = {name: array.copy() for name, array in np.load(tmp_path / "evaluations.npz").items()}
    logged = rows(tmp_path / "log")
    resume(PPO, tmp_path / "c" / "model_128_steps.zip", make_vec_env("CartPole-v1", 2), tmp_path / "log", callbacks())
    found = np.load(tmp_path / "evaluations.npz")
    assert {name: found[name].tolist() for name in found} == {name: array.tolist() for name, array in expected.items()}
    assert rows(tmp_path / "log") == logged


def test_files_of_the_sb3_callback_resume_exactly_from_the_rollout_they_were_saved_in(tmp_path):
    straight = make_model().learn(256, callback=CheckpointCallback(25, str(tmp_path)))
    assert sorted(path.name for path in tmp_path.iterdir())[:2] == ["rl_model_100_steps.zip", "rl_model_150_steps.zip"]
    again = PPO.load(tmp_path / "rl_model_150_steps.zip", env=make_vec_env("CartPole-v1", 2))
    assert again.num_timesteps == 150
    again.learn(256 - 150, reset_num_timesteps=False)
    assert again.num_timesteps == straight.num_timesteps == 256
    assert torch.equal(weights(again), weights(straight))


def test_a_new_training_from_a_checkpoint_begins_again(tmp_path):
    make_model().learn(64, callback=PeriodicCheckpoints(tmp_path, every_steps=32))
    model = PPO.load(tmp_path / "model_32_steps.zip", env=make_vec_env("CartPole-v1", 2))
    model.learn(32)
    assert (model.num_timesteps, model._iteration) == (32, 1)
    weights_only = PPO.load(
        tmp_path / "model_32_steps.zip",
        env=make_vec_env("CartPole-v1", 2),
        custom_objects={"training_state": None},
    )
    weights_only.resume()
    assert (weights_only.num_timesteps, weights_only._iteration) == (64, 1)


def test_another_number_of_environments_goes_on_with_a_warning(tmp_path):
    make_model().learn(64, callback=PeriodicCheckpoints(tmp_path, every_steps=32))
    model = PPO.load(tmp_path / "model_32_steps.zip", env=make_vec_env("CartPole-v1", 3))
    with pytest.warns(UserWarning, match="taken with 2 environments, here are 3"):
        model.resume()


def test_other_wrappers_are_refused(tmp_path):
    make_model().learn(64, callback=PeriodicCheckpoints(tmp_path, every_steps=32))
    model = PPO.load(tmp_path / "model_32_steps.zip", env=VecNormalize(make_vec_env("CartPole-v1", 2)))
    with pytest.raises(EnvironmentStateError, match="VecNormalize"):
        model.resume()


class Companion:
    """Something that trains beside the policy."""

    def __init__(self):
        self.network = torch.nn.Linear(2, 2)

    def state_dict(self):
        return {"network": self.network.state_dict(), "updates": 7}

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.updates = state["updates"]


def test_companions_are_saved_and_restored(tmp_path):
    model = make_model()
    model.companions["curiosity"] = first = Companion()
    model.learn(32, callback=PeriodicCheckpoints(tmp_path))
    again = PPO.load(tmp_path / "model_0_steps.zip", env=make_vec_env("CartPole-v1", 2))
    again.companions["curiosity"] = second = Companion()
    again.resume()
    assert second.updates == 7
    assert torch.equal(first.network.weight, second.network.weight)


def test_callbacks_take_up_their_counters(tmp_path):
    def callbacks():
        trigger = EveryNTimesteps(48, BaseCallback())
        return [PeriodicCheckpoints(tmp_path, every_steps=64, keep_last=9), StopTrainingOnMaxEpisodes(500), trigger]

    first = callbacks()
    make_model().learn(256, callback=first)
    second = callbacks()
    PPO.load(tmp_path / "model_128_steps.zip", env=make_vec_env("CartPole-v1", 2)).resume(callback=second)
    assert second[1].n_episodes == first[1].n_episodes > 4
    assert (second[2].n_calls, second[2].last_time_trigger) == (first[2].n_calls, first[2].last_time_trigger)
    assert second[2].callback.n_calls == first[2].callback.n_calls > 2


# ------------------------------------------------------------------------------------------- when, and what is kept


def test_the_newest_and_the_best_are_kept(tmp_path):
    means = iter([5.0, 1.0, 9.0, 3.0, 2.0])
    callback = PeriodicCheckpoints(tmp_path, every_steps=32, keep_last=2)
    callback._mean_return = lambda: next(means)
    make_model().learn(128, callback=callback)
    folder = CheckpointFolder(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "best.zip",
        "model_128_steps.zip",
        "model_96_steps.zip",
    ]
    assert folder.newest() == folder.of(128)
    assert PPO.load(folder.best).num_timesteps == 64
    assert callback.best_mean == 9.0


def test_the_interval_in_minutes_is_stretched_where_saving_is_slow(tmp_path):
    callback = PeriodicCheckpoints(tmp_path, every_minutes=1.0)
    ticks = count(0, 10)  # a clock that goes on by ten seconds whenever it is read
    callback._clock = lambda: float(next(ticks))
    saved = []
    save = callback.save
    callback.save = lambda: saved.append(callback.num_timesteps) or save()
    make_model().learn(32 * 110, callback=callback)
    assert callback.seconds_per_save == 10.0
    assert np.diff(saved).tolist() == [32 * 100, 32 * 10]  # 1 % of the time, not every six iterations; and the end


def test_a_save_can_be_asked_for_and_end_the_training(tmp_path):
    callback = PeriodicCheckpoints(tmp_path)

    class Ask(BaseCallback):
        def _on_step(self):
            if self.num_timesteps == 40:
                callback.ask_for_save(stop=True)
            return True

    straight = make_model().learn(128)
    model = make_model().learn(128, callback=[Ask(), callback])
    assert model.num_timesteps == 64
    again = PPO.load(CheckpointFolder(tmp_path).newest(), env=make_vec_env("CartPole-v1", 2))
    assert again.num_timesteps == 64
    assert torch.equal(weights(again.resume()), weights(straight))


def test_going_on_from_an_older_checkpoint_sets_the_newer_ones_aside(tmp_path):
    def checkpoints():
        return PeriodicCheckpoints(tmp_path, every_steps=32, keep_last=9, keep_best=False)

    make_model().learn(128, callback=checkpoints())
    model = PPO.load(tmp_path / "model_64_steps.zip", env=make_vec_env("CartPole-v1", 2))
    model.resume(callback=checkpoints())
    assert {path.name for path in tmp_path.glob("*.old")} == {"model_96_steps.zip.old", "model_128_steps.zip.old"}
    assert (tmp_path / "model_128_steps.zip").exists()


def test_a_new_training_does_not_take_the_checkpoints_of_another_for_its_own(tmp_path):
    def checkpoints():
        return PeriodicCheckpoints(tmp_path, every_steps=32, keep_last=1, keep_best=False)

    make_model().learn(128, callback=checkpoints())
    make_model().learn(64, callback=checkpoints())
    assert {path.name for path in tmp_path.iterdir()} == {"model_128_steps.zip.old", "model_64_steps.zip"}


# ------------------------------------------------------------------------------------------------------------ refusals


def test_the_sb3_callback_saves_models_of_environments_without_state(tmp_path):
    model = PPO("MlpPolicy", make_vec_env(Walk, 2, seed=1), **SMALL)
    model.learn(64, callback=CheckpointCallback(16, str(tmp_path)))
    again = PPO.load(tmp_path / "rl_model_32_steps.zip", env=make_vec_env(Walk, 2))
    assert again._training_state is None
    assert again.learn(32, reset_num_timesteps=False).num_timesteps == 64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every_steps": 0}, "every_steps is 0"),
        ({"every_minutes": -1.0}, "every_minutes is -1.0"),
        ({"keep_last": 0}, "keep_last is 0"),
        ({"every_steps": 1, "every_minutes": 1.0}, "not both"),
        ({"boundary": True}, "give the interval in steps"),
    ],
)
def test_settings_are_checked(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        PeriodicCheckpoints(tmp_path, **options)


@pytest.mark.parametrize("part", ["weights", "moments"])
def test_numbers_that_are_none_are_never_saved(part, tmp_path):
    model = make_model().learn(32, callback=PeriodicCheckpoints(tmp_path, keep_best=False))
    parameter = next(iter(model.policy.parameters()))
    with torch.no_grad():
        value = parameter if part == "weights" else model.policy.optimizer.state[parameter]["exp_avg"]
        value[0] = torch.nan
    with pytest.raises(NonFiniteError, match=r"holds NaN or infinity after 32 steps.*earlier one"):
        model.save_checkpoint(tmp_path / "model_33_steps.zip")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model_0_steps.zip", "model_32_steps.zip"]


def test_no_checkpoint_is_an_error_not_a_restart(tmp_path):
    with pytest.raises(NoCheckpointError, match="start it again"):
        CheckpointFolder(tmp_path / "nothing").newest()


def test_a_state_that_does_not_fit_is_refused(tmp_path):
    model = make_model().learn(32)
    state = model.training_state()
    for change, message in (
        ({"version": 7}, "version 7"),
        ({"random": {}}, "does not fit"),
        ({"progress": {"iteration": 1}}, "does not fit"),
    ):
        model._training_state = {**state, **change}
        with pytest.raises(ModelFileError, match=message):
            model.learn(32, reset_num_timesteps=False)


# ---------------------------------------------------------------------------------------------------------------- logs


def write(path, keys, number):
    output = CSVOutputFormat(str(path))
    for row in range(number):
        output.write(dict.fromkeys(keys[: 1 + row], row), {}, row)
    return output


def test_a_csv_goes_on_without_the_rows_and_columns_that_came_after_the_checkpoint(tmp_path):
    output = write(tmp_path / "a.csv", ["x", "y", "z"], 2)
    state = output.get_state()
    expected = (tmp_path / "a.csv").read_text()
    output.write({"x": 5, "y": 6, "z": 7}, {}, 3)
    output.close()
    with (tmp_path / "a.csv").open("a") as file:
        file.write("8,9")  # killed in the middle of a row
    resumed = CSVOutputFormat(str(tmp_path / "a.csv"), resume=True)
    resumed.set_state(state)
    assert (tmp_path / "a.csv").read_text() == expected
    resumed.write({"y": 3}, {}, 3)
    resumed.close()
    assert (tmp_path / "a.csv").read_text() == expected + ",3\n"


def test_a_log_that_was_cut_off_is_noticed(tmp_path):
    output = write(tmp_path / "a.csv", ["x"], 4)
    state = output.get_state()
    output.close()
    (tmp_path / "a.csv").write_text("x\n0\n")
    with pytest.raises(LogPositionError, match=r"a\.csv holds 1 rows, fewer than the 4 rows of 1 columns"):
        CSVOutputFormat(str(tmp_path / "a.csv"), resume=True).set_state(state)


def test_the_text_log_goes_on_too(tmp_path):
    learn_straight(make_model(), tmp_path / "log", 128, PeriodicCheckpoints(tmp_path / "c", every_steps=64))
    expected = (tmp_path / "log" / "log.txt").read_text().count("total_timesteps")
    shutil.copytree(tmp_path / "log", tmp_path / "again")
    env = make_vec_env("CartPole-v1", 2)
    resume(PPO, tmp_path / "c" / "model_64_steps.zip", env, tmp_path / "again", None)
    assert (tmp_path / "again" / "log.txt").read_text().count("total_timesteps") == expected == 4


def test_tensorboard_forgets_what_came_after_the_checkpoint(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = make_model()
    model.set_logger(configure(tmp_path / "log", ["tensorboard"]))
    model.learn(128, callback=PeriodicCheckpoints(tmp_path / "c", every_steps=64))
    model.logger.close()
    again = PPO.load(tmp_path / "c" / "model_64_steps.zip", env=make_vec_env("CartPole-v1", 2))
    again.set_logger(configure(tmp_path / "log", ["tensorboard"], resume=True))
    again.resume()
    again.logger.close()
    events = EventAccumulator(str(tmp_path / "log")).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [32, 64, 96, 128]


def test_gymnasium_environments_are_left_as_they_were(tmp_path):
    """Taking checkpoints changes nothing: the same training with and without them."""
    plain = make_model(make_vec_env(lambda: gym.make("Pendulum-v1"), 2, seed=1)).learn(128)
    saving = make_model(make_vec_env(lambda: gym.make("Pendulum-v1"), 2, seed=1))
    saving.learn(128, callback=PeriodicCheckpoints(tmp_path, every_steps=32))
    assert torch.equal(weights(plain), weights(saving))
