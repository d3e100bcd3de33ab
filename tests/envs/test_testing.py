from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib.common import envs as contrib_envs

from proximo.envs import as_vec_env
from proximo.envs.testing.environments import (
    ActionMattersEnv,
    BitFlippingEnv,
    ConstantRewardEnv,
    DelayedRewardEnv,
    EndlessEnv,
    FakeImageEnv,
    HideVelocity,
    IdentityEnv,
    IdentityEnvBox,
    IdentityEnvMultiBinary,
    IdentityEnvMultiDiscrete,
    InvalidActionEnvDiscrete,
    InvalidActionEnvMultiBinary,
    InvalidActionEnvMultiDiscrete,
    MatchObservationEnv,
    SimpleMultiObsEnv,
)


@pytest.mark.parametrize(
    "env", [IdentityEnv(4), IdentityEnvBox(eps=0.01), IdentityEnvMultiDiscrete(3), IdentityEnvMultiBinary(3)]
)
def test_identity_pays_for_repeating_the_observation(env):
    observation, _ = env.reset(seed=0)
    for step in range(1, 101):
        observation, reward, terminated, truncated, _ = env.step(observation)
        assert (reward, terminated, truncated) == (1.0, False, step == 100)
    env.reset()
    observation = env.state
    wrong = (observation + 1) % 3 if env.action_space.dtype != np.float32 else observation + 0.02
    assert env.step(wrong)[1] == 0.0
    assert env.num_resets == 2


def test_identity_takes_one_of_dim_and_space():
    with pytest.raises(ValueError, match="not both"):
        IdentityEnv(dim=2, space=IdentityEnv(3).action_space)


def test_fake_images():
    env = FakeImageEnv(n_channels=3, screen_height=40, discrete=False, channel_first=True)
    assert env.reset(seed=1)[0].shape == (3, 40, 84)
    assert env.action_space.shape == (5,)
    assert [env.step(0)[3] for _ in range(10)] == [False] * 9 + [True]


@pytest.mark.parametrize(
    "settings", [{}, {"discrete_obs_space": True}, {"image_obs_space": True}, {"continuous": True}]
)
def test_flipping_every_zero_bit_reaches_the_goal(settings):
    env = BitFlippingEnv(5, **settings)
    env.reset(seed=1)
    zeros = np.flatnonzero(env.state == 0)
    assert len(zeros) > 1
    for count, bit in enumerate(zeros, 1):
        action = np.where(np.arange(5) == bit, 1.0, -1.0) if env.continuous else bit
        _, reward, terminated, _, info = env.step(action)
        done = count == len(zeros)
        assert (reward, terminated, info["is_success"]) == (0.0 if done else -1.0, done, done)
    with pytest.raises(ValueError, match="set one of the two"):
        BitFlippingEnv(discrete_obs_space=True, image_obs_space=True)


def test_the_walk_around_the_grid():
    env = SimpleMultiObsEnv(random_start=False)
    env.reset()
    rewards = [env.step(action)[1] for action in (1, 1, 1, 2, 2)]
    assert rewards == [-0.1] * 5
    assert env.state == 14
    observation, reward, terminated, _, info = env.step(2)
    assert (reward, terminated, info["got_to_end"]) == (1.0, True, True)
    assert observation["img"].shape == (64, 64, 1)
    env.reset()
    assert env.step(0)[1] == -0.1
    assert env.state == 0  # a wall
    assert SimpleMultiObsEnv(discrete_actions=False, random_start=False).step(np.array([0, 0, 1, 0]))[4] == {
        "got_to_end": False
    }


def test_probes_pay_what_they_say():
    env = as_vec_env(
        [ConstantRewardEnv, DelayedRewardEnv, ActionMattersEnv, MatchObservationEnv, lambda: EndlessEnv(2)]
    )
    env.seed(0)
    observations = env.reset()
    wanted = int(observations[3, 0] > 0)
    step = env.step_arrays(np.array([0, 0, 1, wanted, 0]))
    assert step.rewards.tolist() == [1, 0, 1, 1, 1]
    assert step.terminated.tolist() == [True, False, True, True, False]
    assert step.observations[1, 0] == 1.0
    wanted = int(step.observations[3, 0] > 0)
    step = env.step_arrays(np.array([0, 0, 0, 1 - wanted, 0]))
    assert step.rewards.tolist() == [1, 1, -1, -1, 1]
    assert step.terminated.tolist() == [True] * 4 + [False]
    assert step.truncated.tolist() == [False] * 4 + [True]


MASKED = [
    (InvalidActionEnvDiscrete, 6, 4, [6]),
    (InvalidActionEnvDiscrete, 6, 5, [6]),
    (InvalidActionEnvMultiDiscrete, [3, 4], 5, [3, 4]),
    (InvalidActionEnvMultiBinary, 3, 2, [2, 2, 2]),
]


@pytest.mark.parametrize(("kind", "size", "invalid", "choices"), MASKED)
def test_masked_identity_forbids_wrong_actions_only(kind, size, invalid, choices):
    env = kind(size, ep_length=50, n_invalid_actions=invalid)
    state, _ = env.reset(seed=1)
    seen = set()
    for _ in range(50):
        mask = np.array(env.action_masks())
        assert mask.shape == (sum(choices),)
        assert (~mask).sum() == invalid == len(env.invalid_actions)
        parts = np.split(mask, np.cumsum(choices)[:-1])
        assert all(part[wanted] for part, wanted in zip(parts, np.atleast_1d(state), strict=True))
        seen.add(tuple(mask))
        state, reward, _, truncated, _ = env.step(state)
        assert reward == 1.0
    assert truncated
    assert len(seen) > 3


@pytest.mark.parametrize(("kind", "size", "invalid", "choices"), MASKED)
def test_masked_identity_has_the_spaces_of_contrib(kind, size, invalid, choices):
    theirs = getattr(contrib_envs, kind.__name__)(size, n_invalid_actions=invalid)
    ours = kind(size, n_invalid_actions=invalid)
    assert ours.action_space == theirs.action_space
    assert ours.observation_space == theirs.observation_space
    assert len(ours.action_masks()) == len(theirs.action_masks())
    with pytest.raises(ValueError, match=f"at most {sum(choices) - len(choices)}"):
        kind(size, n_invalid_actions=sum(choices) - len(choices) + 1)


def test_masks_repeat_with_the_seed():
    def masks(seed):
        env = InvalidActionEnvDiscrete(8, n_invalid_actions=4)
        env.reset(seed=seed)
        return [(env.step(0), env.action_masks().tolist())[1] for _ in range(5)]

    assert masks(1) == masks(1) != masks(2)


def test_hidden_velocities():
    env, plain = HideVelocity(gym.make("CartPole-v1")), gym.make("CartPole-v1")
    np.testing.assert_array_equal(env.reset(seed=0)[0], plain.reset(seed=0)[0][[0, 2]])
    np.testing.assert_array_equal(env.step(1)[0], plain.step(1)[0][[0, 2]])
    assert env.observation_space.shape == (2,)
    with pytest.raises(ValueError, match="vector"):
        HideVelocity(FakeImageEnv())
