from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from counting_envs import CountingEnv, DictCountingEnv
from sb3_contrib.common.wrappers import TimeFeatureWrapper as ContribTimeFeature

from proximo.envs import TimeFeatureWrapper, make_vec_env
from proximo.envs.testing.environments import BitFlippingEnv, FakeImageEnv


class Goal(BitFlippingEnv):
    """A Dict whose part ``observation`` is a Box."""

    def __init__(self):
        super().__init__(n_bits=3)
        bits = gym.spaces.Box(0, 1, (3,), np.float64)
        self.observation_space = gym.spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), bits))


MAKERS = [lambda: gym.make("Pendulum-v1"), lambda: CountingEnv(length=6), Goal]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("options", [{}, {"max_steps": 10}, {"max_steps": 10, "test_mode": True}])
def test_equals_contrib(make, options):
    ours, theirs = TimeFeatureWrapper(make(), **options), ContribTimeFeature(make(), **options)
    assert ours.observation_space == theirs.observation_space
    first, expected = ours.reset(seed=3)[0], theirs.reset(seed=3)[0]
    np.testing.assert_equal(first, expected)
    ours.action_space.seed(0)
    for _ in range(5):
        action = ours.action_space.sample()
        observation, expected = ours.step(action)[0], theirs.step(action)[0]
        np.testing.assert_equal(observation, expected)
        assert ours.observation_space.contains(observation)
    np.testing.assert_equal(ours.reset(seed=4)[0], theirs.reset(seed=4)[0])


def test_the_wrapped_environment_keeps_its_space():
    env = gym.make("Pendulum-v1")
    assert TimeFeatureWrapper(env).observation_space.shape == (4,)
    assert env.observation_space.shape == (3,)


def test_time_runs_out_at_the_limit():
    env = make_vec_env("Pendulum-v1", seed=0, wrapper_class=TimeFeatureWrapper)
    env.reset()
    for _ in range(199):
        observations, *_ = env.step(np.zeros((1, 1)))
    assert observations[0, -1] == pytest.approx(1 / 200)
    observations, _, _, infos = env.step(np.zeros((1, 1)))
    assert infos[0]["terminal_observation"][-1] == 0.0
    assert observations[0, -1] == 1.0


@pytest.mark.parametrize("make", [FakeImageEnv, DictCountingEnv, lambda: gym.make("FrozenLake-v1")])
def test_only_vectors_can_be_extended(make):
    with pytest.raises(ValueError, match="Box of one dimension"):
        TimeFeatureWrapper(make())
