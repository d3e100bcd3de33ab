"""Agents of the family on the kernels: the same training as on PyTorch."""

from __future__ import annotations

from dataclasses import fields

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from proximo import A2C, PPO, MaskablePPO, make_vec_env
from proximo.agents.on_policy import OnPolicyAlgorithm
from proximo.networks.optimizers import RMSpropTFLike
from rounding import assert_same_training


def train_alike(fused: OnPolicyAlgorithm, other: OnPolicyAlgorithm, updates: int) -> None:
    """Collect with one agent, and train both on what it has seen."""
    _, callback = fused._setup_learn(10**6, None)
    for _ in range(updates):
        fused.collect_rollouts(fused.env, callback, fused.rollout_buffer, fused.n_steps)
        source, target = fused.rollout_buffer.rollout, other.rollout_buffer.rollout
        for field in fields(source):
            array = getattr(source, field.name)
            setattr(target, field.name, array.copy() if isinstance(array, np.ndarray) else array)
        other.rollout_buffer.full = True
        other.generator.bit_generator.state = fused.generator.bit_generator.state  # the same minibatches
        fused.train()
        other.train()


A2C_OPTIONS = {
    "rmsprop": {},
    "adam": {"use_rms_prop": False},
    "normalized": {"normalize_advantage": True, "ent_coef": 0.01, "n_steps": 7},
    "tensorflow's rmsprop": {
        "policy_kwargs": {"optimizer_class": RMSpropTFLike, "optimizer_kwargs": {"alpha": 0.95, "eps": 1e-5}}
    },
}


@pytest.mark.parametrize("options", A2C_OPTIONS.values(), ids=A2C_OPTIONS)
@pytest.mark.parametrize(
    ("env", "noise"), [("CartPole-v1", {}), ("Pendulum-v1", {}), ("Pendulum-v1", {"use_sde": True})]
)
def test_a2c(options, env, noise):
    fused, other = (
        A2C("MlpPolicy", make_vec_env(env, n_envs=4, seed=0), seed=0, backend=backend, **options, **noise)
        for backend in ("fused", "torch")
    )
    before = fused.policy.value_net.weight.detach().clone()
    train_alike(fused, other, 6)
    assert (fused.policy.value_net.weight - before).abs().max() > 1e-4
    assert_same_training(fused.policy, other.policy)


def test_ppo_with_state_dependent_exploration():
    fused, other = (
        PPO(
            "MlpPolicy", make_vec_env("Pendulum-v1", n_envs=4, seed=0), n_steps=64, batch_size=64, n_epochs=1, seed=0,
            use_sde=True, sde_sample_freq=4, backend=backend, ent_coef=0.01,
        )
        for backend in ("auto", "torch")
    )  # fmt: skip
    assert fused.backend == "fused"
    train_alike(fused, other, 2)
    assert_same_training(fused.policy, other.policy)


class ForbiddingEnv(gym.Env):
    """One action of fifty is right, and two are allowed; a forbidden one is an error."""

    observation_space = spaces.Box(-1.0, 1.0, (50,))
    action_space = spaces.Discrete(50)

    def _observe(self):
        self.right = int(self.np_random.integers(50))
        self.steps += 1
        return np.eye(50, dtype=np.float32)[self.right]

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def action_masks(self):
        return np.isin(np.arange(50), [self.right, (self.right + 1) % 50])

    def step(self, action):
        if not self.action_masks()[action]:
            raise ValueError(f"action {action} is forbidden")
        reward = float(action == self.right)
        return self._observe(), reward, False, self.steps > 20, {}


@pytest.mark.parametrize("agent", [MaskablePPO, PPO])
def test_masked_agents_learn_on_kernels(agent):
    env = make_vec_env(ForbiddingEnv, n_envs=4, seed=0)
    model = agent("MlpPolicy", env, n_steps=128, batch_size=64, learning_rate=3e-3, seed=0)
    model.learn(8192, use_masking=True)
    assert model.backend == "fused"
    assert np.mean([episode["r"] for episode in model.ep_info_buffer]) > 18.0  # of 20; chance is 10
