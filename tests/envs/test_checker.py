from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.env_checker import check_env as sb3_check_env

from proximo.envs import check_env
from proximo.envs.testing import environments as testing
from proximo.envs.testing.environments import BitFlippingEnv


class Adjustable(gym.Env):
    """A sound environment with parts to replace."""

    def __init__(self, observation_space=None, action_space=None, observation=None, **returned):
        self.observation_space = observation_space or spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = action_space or spaces.Box(-1, 1, (2,), np.float32)
        self.observation = observation
        self.returned = {"reward": 0.0, "terminated": False, "truncated": False, "info": {}} | returned

    def _observe(self):
        return self.observation_space.sample() if self.observation is None else self.observation

    def reset(self, *, seed=None, options=None):
        return self._observe(), {}

    def step(self, action):
        return self._observe(), *self.returned.values()


@pytest.mark.parametrize("name", testing.__all__)
def test_our_own_environments_are_sound(name):
    kind = getattr(testing, name)
    env = kind(gym.make("CartPole-v1")) if issubclass(kind, gym.Wrapper) else kind()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)


@pytest.mark.parametrize("settings", [{"discrete_obs_space": True}, {"image_obs_space": True}, {"continuous": True}])
def test_goal_environments_are_sound(settings):
    check_env(BitFlippingEnv(**settings))
    sb3_check_env(BitFlippingEnv(**settings))


BROKEN = {
    "keys": (Adjustable(spaces.Dict({"a": spaces.Discrete(2)}), observation={"b": 1}), "has keys"),
    "no dict": (Adjustable(spaces.Dict({"a": spaces.Discrete(2)}), observation=np.int64(1)), "must be a dictionary"),
    "shape": (Adjustable(observation=np.zeros(2, np.float32)), r"shape \(2,\), its space \(3,\)"),
    "dtype": (Adjustable(observation=np.zeros(3, np.float64)), "dtype float64"),
    "bounds": (Adjustable(observation=np.array([0, 5, 0], np.float32)), r"\[1\] is 5.0, bounds -1.0 to 1.0"),
    "no array": (Adjustable(observation=[0.0, 0.0, 0.0]), "must be a NumPy array"),
    "no int": (Adjustable(spaces.Discrete(3), observation=np.zeros(1)), "must be an int"),
    "reward": (Adjustable(reward=np.zeros(1)), "reward from step.. must be a float"),
    "terminated": (Adjustable(terminated=0), "`terminated` from step.. must be a bool"),
    "truncated": (Adjustable(truncated=np.True_), "`truncated` from step.. must be a bool"),
    "info": (Adjustable(info=[]), "info from step.. must be a dictionary"),
    "infinite": (Adjustable(action_space=spaces.Box(-np.inf, 1, (2,), np.float32)), "finite bounds"),
    "space": (Adjustable(action_space="left or right"), "must be a gymnasium space"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.filterwarnings("ignore")
def test_broken_contract(name):
    env, words = BROKEN[name]
    with pytest.raises(AssertionError, match=words):
        check_env(env)
    with pytest.raises(AssertionError):
        sb3_check_env(env)


def test_broken_methods():
    class FourValues(Adjustable):
        def step(self, action):
            return self._observe(), 0.0, False, {}

    class OldReset(Adjustable):
        def reset(self):
            return self._observe()

    class PlainReset(Adjustable):
        def reset(self, *, seed=None, options=None):
            return self._observe()

    with pytest.raises(AssertionError, match=r"step\(\) must return"):
        check_env(FourValues())
    with pytest.raises(TypeError, match="`seed`"):
        check_env(OldReset())
    with pytest.raises(AssertionError, match=r"reset\(\) must return"):
        check_env(PlainReset())
    with pytest.raises(AssertionError, match=r"derive from gymnasium\.Env"):
        check_env("CartPole-v1")


WORTH_A_WARNING = {
    "action bounds": (Adjustable(action_space=spaces.Box(0, 1, (2,), np.float32)), "should be -1 and 1"),
    "action dtype": (Adjustable(action_space=spaces.Box(-1, 1, (2,), np.float64)), "should be float32"),
    "part of an action": (
        Adjustable(action_space=spaces.Dict({"a": spaces.Box(0, 1, (2,), np.float32)})),
        "should be -1 and 1",
    ),
    "start": (Adjustable(spaces.Discrete(3, start=1)), "must start at 0"),
    "matrix choices": (Adjustable(spaces.MultiDiscrete([[2, 2], [2, 2]])), "flatten it to one dimension"),
    "small image": (Adjustable(spaces.Box(0, 255, (20, 40, 3), np.uint8)), "20 x 40 is too small"),
    "image dtype": (Adjustable(spaces.Box(0, 255, (40, 40, 3), np.float32)), "instead of uint8"),
    "image bounds": (Adjustable(spaces.Box(0, 1, (40, 40, 3), np.uint8)), "bounds are not 0 and 255"),
    "matrix": (Adjustable(spaces.Box(0, 1, (4, 4), np.float32)), "neither a vector nor an image"),
    "sequence": (Adjustable(spaces.Sequence(spaces.Discrete(2))), "Sequence spaces are not supported"),
}


@pytest.mark.parametrize("name", WORTH_A_WARNING)
def test_warnings(name):
    env, words = WORTH_A_WARNING[name]
    with pytest.warns(UserWarning, match=words):
        check_env(env)
    with pytest.warns(UserWarning, match="."):
        sb3_check_env(env)


def test_warning_of_a_part_within_a_part():
    with pytest.warns(UserWarning, match="'a/0': Discrete spaces must start at 0"):
        check_env(Adjustable(spaces.Dict({"a": spaces.Tuple([spaces.Discrete(2, start=1)])})))


def test_nan_is_found():
    with pytest.warns(UserWarning, match="NaN in rewards of environment 0"):
        check_env(Adjustable(reward=float("nan")))


def test_render_check_renders_and_closes():
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    check_env(env, skip_render_check=False)
