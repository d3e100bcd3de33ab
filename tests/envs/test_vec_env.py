from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3.common.vec_env as sb3
from counting_envs import CountingEnv, DictCountingEnv, RandomEnv
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env

from proximo.envs import (
    DummyVecEnv,
    Monitor,
    VecEnvWrapper,
    VecFrameStack,
    VecNormalize,
    arrays_from_step,
    is_vecenv_wrapped,
    make_vec_env,
    unwrap_vec_wrapper,
)
from proximo.envs.vector.vec_env import AUTORESET_KEY


def counting(*lengths, **kwargs):
    return DummyVecEnv([lambda length=length: CountingEnv(length, **kwargs) for length in lengths])


def assert_same_step(ours, theirs):
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[1], theirs[1])
    assert ours[1].dtype == theirs[1].dtype == np.float32
    np.testing.assert_array_equal(ours[2], theirs[2])
    for mine, other in zip(ours[3], theirs[3], strict=True):
        mine, other = dict(mine), dict(other)
        for info in (mine, other):
            if "episode" in info:
                info["episode"] = {key: info["episode"][key] for key in "rl"}
        np.testing.assert_equal(mine, other)


def test_step_matches_stable_baselines3():
    factories = [lambda: RandomEnv() for _ in range(3)]
    ours, theirs = DummyVecEnv(factories), sb3.DummyVecEnv(factories)
    ours.seed(5), theirs.seed(5)
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    generator = np.random.default_rng(0)
    ended = 0
    for _ in range(60):
        actions = generator.normal(size=(3, 2)).astype(np.float32)
        step = ours.step(actions)
        assert_same_step(step, theirs.step(actions))
        assert ours.reset_infos == theirs.reset_infos
        ended += step[2].sum()
    assert ended > 3


def test_make_vec_env_matches_stable_baselines3(tmp_path):
    ours = make_vec_env("CartPole-v1", 3, seed=7, start_index=2, monitor_dir=str(tmp_path / "ours"))
    theirs = sb3_make_vec_env("CartPole-v1", 3, seed=7, start_index=2, monitor_dir=str(tmp_path / "theirs"))
    assert ours.render_mode == theirs.render_mode == "rgb_array"
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    for space_pair in zip(ours.get_attr("action_space"), theirs.get_attr("action_space"), strict=True):
        draws = [[space.sample() for _ in range(20)] for space in space_pair]
        assert draws[0] == draws[1]
    for step in range(50):
        actions = np.array([0, 1, step % 2])
        assert_same_step(ours.step(actions), theirs.step(actions))
    names = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("ours", "theirs")]
    assert names[0] == names[1] == ["2.monitor.csv", "3.monitor.csv", "4.monitor.csv"]


def test_step_arrays_of_hand_counted_episodes():
    env = counting(2, 3, truncate=True)
    np.testing.assert_array_equal(env.reset(), [[0, 0], [0, 0]])
    step = env.step_arrays(np.zeros(2, int))
    np.testing.assert_array_equal(step.observations, [[1, 1], [1, 1]])
    np.testing.assert_array_equal(step.rewards, [1, 1])
    assert not step.terminated.any()
    assert not step.truncated.any()
    assert not step.infos
    assert step.valid is None

    step = env.step_arrays(np.zeros(2, int))
    np.testing.assert_array_equal(step.observations, [[100, 100], [2, 2]])
    np.testing.assert_array_equal(step.rewards, [2, 2])
    assert step.truncated.tolist() == [True, False]
    assert not step.terminated.any()
    assert list(step.infos) == [0]
    np.testing.assert_array_equal(step.final_observations[0], [2, 2])
    np.testing.assert_array_equal(step.infos[0]["terminal_observation"], [2, 2])
    assert step.infos[0]["TimeLimit.truncated"] is True
    assert env.reset_infos[0] == {"opened": 1}

    step = env.step_arrays(np.zeros(2, int))
    np.testing.assert_array_equal(step.observations, [[101, 101], [100, 100]])
    assert step.truncated.tolist() == [False, True]
    np.testing.assert_array_equal(step.final_observations[1], [3, 3])


def test_terminated_wins_over_truncated():
    class Both(CountingEnv):
        def step(self, action):
            return *super().step(action)[:2], True, True, {}

    env = DummyVecEnv([Both])
    env.reset()
    step = env.step_arrays([0])
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([True], [False])
    assert step.infos[0]["TimeLimit.truncated"] is False


def test_final_observation_survives_an_environment_that_reuses_its_array():
    env = counting(2, reuse_arrays=True)
    env.reset()
    env.step_arrays([0])
    step = env.step_arrays([0])
    np.testing.assert_array_equal(step.final_observations[0], [2, 2])
    np.testing.assert_array_equal(step.observations[0], [100, 100])


def test_step_returns_arrays_that_stay():
    env = counting(9)
    first = env.reset()
    kept = [env.step([0]) for _ in range(3)]
    np.testing.assert_array_equal(first, [[0, 0]])
    assert [step[0][0, 0] for step in kept] == [1, 2, 3]
    assert [step[1][0] for step in kept] == [1, 2, 3]
    assert [step[3][0]["count"] for step in kept] == [1, 2, 3]


def test_dictionary_observations():
    env = DummyVecEnv([lambda: DictCountingEnv(length=2)] * 2)
    first = env.reset()
    assert first["vector"].shape == (2, 2)
    assert first["image"].shape == (2, 40, 36, 3)
    env.step_arrays([0, 0])
    step = env.step_arrays([0, 0])
    np.testing.assert_array_equal(step.observations["vector"], [[100, 100]] * 2)
    np.testing.assert_array_equal(step.final_observations[1]["vector"], [2, 2])
    assert step.final_observations[1]["image"][0, 0].tolist() == [0, 2, 0]


def test_seeds_and_options_are_used_once():
    env = counting(3, 3)
    assert list(env.seed(10)) == [10, 11]
    env.set_options([{"level": 1}, {}])
    env.reset()
    env.set_options({"level": 2})
    env.reset()
    env.reset()
    assert env.get_attr("reset_calls")[0] == [(10, {"level": 1}), (None, {"level": 2}), (None, None)]
    assert env.get_attr("reset_calls")[1] == [(11, None), (None, {"level": 2}), (None, None)]
    with pytest.raises(ValueError, match="options for 1 environments, expected 2"):
        env.set_options([{}])


def test_access_to_single_environments():
    env = make_vec_env(lambda: CountingEnv(5), 3)
    assert env.get_attr("length") == [5, 5, 5]
    env.set_attr("length", 7, indices=[0, 2])
    assert env.env_method("double", 10, indices=1) == [25]
    assert env.env_is_wrapped(Monitor, indices=0) == [True]
    assert env.env_is_wrapped(gym.wrappers.TimeLimit) == [False] * 3
    assert env.has_attr("double")
    assert not env.has_attr("nonsense")


def test_render_tiles_and_warns_of_impossible_modes():
    env = counting(5, 5, 5, render_mode="rgb_array")
    env.reset()
    env.step([0, 0, 0])
    image = env.render()
    assert image.shape == (8, 12, 3)
    assert image[0, 0, 0] == 1
    assert image[7, 11, 0] == 0  # the fourth place of the grid is empty
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert env.render("ansi") is None
    with pytest.warns(UserWarning, match="without a render_mode"):
        assert counting(3).render() is None
    with pytest.warns(UserWarning, match="no display"):
        env.render("human")


def test_wrong_factories():
    shared = CountingEnv()
    with pytest.raises(ValueError, match="same environment twice"):
        DummyVecEnv([lambda: shared] * 2)
    with pytest.raises(ValueError, match="no environment factories"):
        DummyVecEnv([])
    with pytest.raises(TypeError, match=r"expected a gymnasium\.Env, got builtins\.int"):
        DummyVecEnv([lambda: 3])


def test_an_error_names_its_environment():
    class Broken(CountingEnv):
        def step(self, action):
            raise RuntimeError("boom")

    env = DummyVecEnv([CountingEnv, Broken])
    env.reset()
    with pytest.raises(RuntimeError, match="boom") as caught:
        env.step_arrays([0, 0])
    assert caught.value.__notes__ == ["raised by environment 1"]


class Negated(VecEnvWrapper):
    """A wrapper as a Stable-Baselines3 user writes it."""

    def reset(self):
        return -self.venv.reset()

    def step_wait(self):
        observations, rewards, dones, infos = self.venv.step_wait()
        return -observations, rewards, dones, infos


class LoudDummy(DummyVecEnv):
    def step_wait(self):
        observations, rewards, dones, infos = super().step_wait()
        return observations, rewards * 10, dones, infos


class OtherActions(VecNormalize):
    def step_async(self, actions):
        super().step_async(np.full_like(actions, 2))


def test_wrappers_that_know_only_step_wait_are_not_bypassed():
    env = Negated(counting(2))
    np.testing.assert_array_equal(env.reset(), [[0, 0]])
    env.step_arrays([0])
    step = env.step_arrays([0])
    np.testing.assert_array_equal(step.observations, [[-100, -100]])
    np.testing.assert_array_equal(step.final_observations[0], [2, 2])  # the wrapper left it alone
    assert step.terminated.tolist() == [True]

    stacked = VecFrameStack(Negated(counting(5)), 2)
    stacked.reset()
    stacked.step_arrays([0])
    np.testing.assert_array_equal(stacked.step_arrays([0]).observations, [[-1, -1, -2, -2]])

    loud = LoudDummy([CountingEnv])
    loud.reset()
    assert loud.step_arrays([0]).rewards.tolist() == [10.0]

    other = OtherActions(counting(5))
    other.reset()
    other.step_arrays([0])
    assert other.get_attr("last_action") == [2]


def test_mixin_that_changes_step_wait_is_not_bypassed():
    class Mixin:
        def step_wait(self):
            observations, rewards, dones, infos = super().step_wait()
            return observations, rewards + 1, dones, infos

    class Mixed(Mixin, DummyVecEnv):
        pass

    env = Mixed([CountingEnv])
    env.reset()
    assert env.step_arrays([0]).rewards.tolist() == [2.0]


def test_attributes_are_found_through_wrappers():
    inner = VecNormalize(counting(2), gamma=0.5)
    env = Negated(inner)
    assert env.gamma == 0.5
    assert env.envs[0].length == 2
    assert env.unwrapped is inner.venv
    assert env.reset_infos is inner.venv.reset_infos
    assert unwrap_vec_wrapper(env, VecNormalize) is inner
    assert not is_vecenv_wrapped(env, VecFrameStack)
    with pytest.raises(AttributeError, match="ambiguous"):
        _ = Negated(VecNormalize(VecNormalize(counting(2)))).gamma
    with pytest.raises(AttributeError, match="nonsense"):
        _ = env.nonsense


def test_wrapper_refuses_what_is_no_vector_environment():
    with pytest.raises(TypeError, match="as_vec_env"):
        VecNormalize(CountingEnv())


def test_arrays_from_step_splits_ends():
    infos = [
        {"TimeLimit.truncated": False, "terminal_observation": np.ones(1)},
        {"TimeLimit.truncated": True, "terminal_observation": np.zeros(1)},
        {"TimeLimit.truncated": True},
        {},
    ]
    step = arrays_from_step(np.zeros((4, 1)), np.arange(4), np.array([1, 1, 1, 0], bool), infos)
    assert step.terminated.tolist() == [True, False, True, False]  # no last observation: cannot be bootstrapped
    assert step.truncated.tolist() == [False, True, False, False]
    assert sorted(step.final_observations) == [0, 1]
    assert sorted(step.infos) == [0, 1, 2]
    assert step.rewards.dtype == np.float32
    assert step.valid is None
    marked = arrays_from_step(np.zeros((2, 1)), np.zeros(2), np.zeros(2, bool), [{}, {AUTORESET_KEY: True}])
    assert marked.valid.tolist() == [True, False]
