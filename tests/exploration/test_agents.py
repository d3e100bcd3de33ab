"""Agents with an intrinsic reward: every algorithm, every reward, every kind of observation."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from family import FAMILY, Member, every_member, weights
from proximo import A2C, PPG, PPO, make_vec_env
from proximo.envs import DummyVecEnv
from proximo.envs.testing.environments import FakeImageEnv, SimpleMultiObsEnv
from proximo.errors import NonFiniteError
from proximo.exploration import (
    E3B,
    ICM,
    NGU,
    RE3,
    REWARDS,
    RND,
    Disagreement,
    Fabric,
    IntrinsicReward,
    PseudoCounts,
)
from proximo.rollout.storage import RolloutBuffer
from proximo.training.callbacks import BaseCallback

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "seed": 3}


class Keep(BaseCallback):
    """Rewards of the rollouts as the agent trains on them."""

    def __init__(self) -> None:
        super().__init__()
        self.rewards: list[Any] = []
        self.intrinsic: list[Any] = []
        self.extrinsic: list[float] = []

    def _on_step(self) -> bool:
        self.extrinsic += [float(reward) for reward in self.locals["rewards"]]
        return True

    def _on_rollout_end(self) -> None:
        rollout = self.model.rollout_buffer.rollout
        self.rewards.append(rollout.rewards.copy())
        self.intrinsic.append(rollout.intrinsic_rewards.copy())


@every_member
def test_every_algorithm_is_shaped_and_logs_both_rewards(member: Member) -> None:
    plain = member.make()
    model = member.make(intrinsic_reward=RND(latent_dim=8, beta=0.5))
    assert torch.equal(weights(model), weights(plain))  # the same seed is the same policy, with and without it
    assert model.backend == plain.backend
    kept = Keep()
    member.learn(model, 64, callback=kept, log_interval=1)
    logged = model.logger.name_to_value
    assert logged["rollout/intrinsic_reward_mean"] == pytest.approx(kept.intrinsic[-1].mean(), rel=1e-5)
    last = np.reshape(kept.extrinsic[-32:], (16, 2))
    assert logged["rollout/extrinsic_reward_mean"] == pytest.approx(last.mean(), rel=1e-4, abs=1e-6)
    np.testing.assert_allclose(kept.rewards[-1], last + kept.intrinsic[-1], rtol=1e-5, atol=1e-5)
    assert (kept.intrinsic[-1] > 0.0).all()
    member.learn(plain, 64)
    assert not torch.equal(weights(model), weights(plain))


def test_statistics_of_episodes_are_the_environments_own() -> None:
    env = make_vec_env("CartPole-v1", n_envs=2, seed=0)
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1, seed=0, intrinsic_reward=RND(beta=100.0))
    model.learn(512)
    assert len(model.ep_info_buffer) > 5
    assert all(episode["r"] == episode["l"] for episode in model.ep_info_buffer)  # CartPole pays 1 per step
    assert model.logger.name_to_value["rollout/extrinsic_reward_mean"] == 1.0
    assert model.logger.name_to_value["rollout/intrinsic_reward_mean"] > 10.0


def vector_env() -> Any:
    return make_vec_env("CartPole-v1", n_envs=2)


def image_env() -> Any:
    return DummyVecEnv([lambda: FakeImageEnv(screen_height=40, screen_width=40)] * 2)


def dict_env() -> Any:
    return DummyVecEnv([SimpleMultiObsEnv] * 2)


MIX = [lambda: Fabric(RND(latent_dim=4), E3B(latent_dim=4))]


@pytest.mark.parametrize("make", [*(kind for kind in REWARDS.values()), *MIX], ids=[*REWARDS, "fabric"])
@pytest.mark.parametrize(
    ("policy", "make_env"),
    [
        ("MlpPolicy", vector_env),
        ("CnnPolicy", image_env),
        ("MultiInputPolicy", dict_env),
    ],
    ids=["vector", "image", "dict"],
)
def test_every_reward_reads_every_kind_of_observation(make: Any, policy: str, make_env: Any) -> None:
    small = {"n_steps": 12, "batch_size": 24, "n_epochs": 1, "seed": 0, "device": "cpu"}
    model = PPO(policy, make_env(), **small, intrinsic_reward=make())
    model.learn(24)
    intrinsic = model.rollout_buffer.rollout.intrinsic_rewards
    assert np.isfinite(intrinsic).all()
    assert intrinsic.max() > 0.0


def test_the_weight_of_the_environments_reward() -> None:
    kept = Keep()
    PPO("MlpPolicy", "CartPole-v1", **SMALL, intrinsic_reward=RND(extrinsic_coef=0.0)).learn(16, callback=kept)
    np.testing.assert_array_equal(kept.rewards[0], kept.intrinsic[0])
    kept = Keep()
    PPO("MlpPolicy", "CartPole-v1", **SMALL, intrinsic_reward=RND(extrinsic_coef=3.0)).learn(16, callback=kept)
    np.testing.assert_allclose(kept.rewards[0], 3.0 + kept.intrinsic[0], rtol=1e-6)


class Places(IntrinsicReward):
    """The first number of what a step led to."""

    def compute(self, samples: Any, sync: bool = True) -> torch.Tensor:
        super().compute(samples, sync)
        return samples["next_observations"][..., 0]


class Counter(gym.Env[Any, Any]):
    """Shows how many steps were made in the episode; three of them, cut off by a time limit."""

    observation_space = gym.spaces.Box(0.0, 100.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.full(1, self.steps, np.float32), 10.0, False, self.steps == 3, {}


def test_a_step_is_paid_for_what_it_led_to_at_an_episodes_end_too() -> None:
    model = PPO("MlpPolicy", Counter(), n_steps=8, batch_size=8, n_epochs=1, seed=0, intrinsic_reward=Places())
    model.learn(8)
    assert model.rollout_buffer.rollout.intrinsic_rewards[:, 0].tolist() == [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0]
    assert model.rollout_buffer.rollout.rewards[:3, 0].tolist() == [11.0, 12.0, 13.0]


class BrokenEnds(Counter):
    """The last observation of an episode is not a number."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, _, truncated, info = super().step(action)
        return (np.full(1, np.nan, np.float32) if truncated else observation), reward, truncated, False, info


@pytest.mark.parametrize("make", [RND, Places, lambda: RND(own_value=True)], ids=["rnd", "own", "own value"])
def test_what_a_step_led_to_is_not_finite(make: Any) -> None:
    arguments = {"n_steps": 9, "batch_size": 9, "n_epochs": 1, "seed": 0}
    model = PPO("MlpPolicy", BrokenEnds(), **arguments, intrinsic_reward=make())
    with pytest.raises(NonFiniteError, match="in the observation that a step led to of environment 0 at step 2"):
        model.learn(9)
    model = PPO("MlpPolicy", BrokenEnds(), **arguments, intrinsic_reward=make())
    with pytest.warns(UserWarning, match="touches 3 of 9 steps"):
        model.learn(9, on_non_finite="skip")
    rollout = model.rollout_buffer.rollout
    assert rollout.valid[:, 0].tolist() == [True, True, False] * 3
    assert np.isfinite(rollout.intrinsic_rewards).all()
    assert rollout.intrinsic_rewards[2, 0] == 0.0
    assert all(torch.isfinite(part).all() for part in model.policy.parameters())
    if isinstance(model.intrinsic_reward, RND):
        assert all(torch.isfinite(part).all() for part in model.intrinsic_reward.networks.parameters())


class BrokenMiddle(Counter):
    """What the second step of an episode shows is not a number."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return (np.full(1, np.nan, np.float32) if self.steps == 2 else observation), reward, terminated, truncated, info


def test_a_reward_learns_nothing_from_what_stands_in_for_a_broken_observation() -> None:
    arguments = {"n_steps": 9, "batch_size": 9, "n_epochs": 1, "seed": 0}
    model = PPO("MlpPolicy", BrokenMiddle(), **arguments, intrinsic_reward=RND())
    with pytest.warns(UserWarning, match="touches 6 of 9 steps"):
        model.learn(9, on_non_finite="skip")
    statistics = model.intrinsic_reward.statistics["observations"]
    assert statistics.count == pytest.approx(3.0, abs=1e-3)  # the first step of each episode
    assert statistics.mean.tolist() == pytest.approx([0.0])


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(TypeError, match=r"intrinsic_reward is 'rnd'; expected an object such as proximo"):
        PPO("MlpPolicy", "CartPole-v1", intrinsic_reward="rnd")
    with pytest.raises(TypeError, match="intrinsic_reward is <class"):
        PPO("MlpPolicy", "CartPole-v1", intrinsic_reward=RND)
    with pytest.raises(ValueError, match="PPG cannot give an intrinsic reward a value of its own"):
        PPG("MlpPolicy", "CartPole-v1", intrinsic_reward=RND(own_value=True))

    class Mine(RolloutBuffer):
        pass

    with pytest.raises(ValueError, match="not in a Mine"):
        PPO("MlpPolicy", "CartPole-v1", intrinsic_reward=RND(own_value=True), rollout_buffer_class=Mine)
    with pytest.raises(ValueError, match="the fused backend cannot run this policy: an intrinsic reward has a value"):
        PPO("MlpPolicy", "CartPole-v1", intrinsic_reward=RND(own_value=True), backend="fused")
    with pytest.raises(ValueError, match="k=5 neighbours need at least 6 states"):
        A2C("MlpPolicy", "CartPole-v1", intrinsic_reward=RE3()).learn(5)


def test_a_users_buffer_gets_the_intrinsic_reward_too() -> None:
    class Mine(RolloutBuffer):
        pass

    env = make_vec_env("CartPole-v1", n_envs=2, seed=0)
    model = PPO("MlpPolicy", env, **SMALL, intrinsic_reward=RND(beta=50.0), rollout_buffer_class=Mine)
    model.learn(32)
    assert model.rollout_buffer.rewards.mean() > 10.0
    assert model.rollout_buffer.returns.mean() > 50.0


@pytest.mark.parametrize("name", ["ppo", "a2c", "lstm", "gru", "masks", "trpo", "noise", "everything"])
def test_a_value_of_its_own_trains_in_every_algorithm_that_has_room_for_it(name: str) -> None:
    member = FAMILY[name]
    model = member.make(intrinsic_reward=RND(latent_dim=8, own_value=True, discount=0.9))
    before = weights(model)
    assert model.policy.value_net.out_features == 2
    member.learn(model, 64)
    stream = model.rollout_buffer.rollout.own_stream
    assert np.abs(stream.values).max() > 0.0
    assert not np.array_equal(stream.values, model.rollout_buffer.rollout.values)
    assert not torch.equal(weights(model), before)
    assert model.backend.startswith("torch")


def test_counts_and_ensembles_remember_from_rollout_to_rollout() -> None:
    for reward in (PseudoCounts(latent_dim=4), NGU(latent_dim=4), ICM(latent_dim=4), Disagreement(latent_dim=4)):
        model = PPO("MlpPolicy", "CartPole-v1", **SMALL, intrinsic_reward=reward)
        model.learn(48)
        assert reward.global_step == 3
