"""An intrinsic reward with a value of its own: two streams, two heads, one advantage (Burda et al. 2018)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo import PPO, make_vec_env
from proximo.data import Minibatch
from proximo.exploration import RND
from proximo.functional.losses import value_error, value_errors
from proximo.rollout.minibatches import on_device
from proximo.rollout.storage import RolloutBuffer, add_intrinsic_advantages, allocate_stream, estimate_advantages


def full_buffer(gamma: float = 0.5, gae_lambda: float = 0.5) -> RolloutBuffer:
    """Three steps of one environment, of which the second ends an episode."""
    buffer = RolloutBuffer(3, spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(2), "cpu", gae_lambda, gamma, n_envs=1)
    rollout = buffer.rollout
    rollout.rewards[:, 0] = [1.0, 2.0, 4.0]
    rollout.values[:, 0] = [1.0, 1.0, 2.0]
    rollout.last_values[:] = 8.0
    rollout.terminated[1, 0] = True
    rollout.intrinsic_rewards = np.array([[2.0], [4.0], [1.0]], np.float32)
    rollout.own_stream = allocate_stream(3, 1)
    rollout.own_stream.values[:, 0] = [4.0, 2.0, 1.0]
    rollout.own_stream.last_values[:] = 2.0
    return buffer


def test_combined_advantages_by_hand() -> None:
    """γ = λ = ½ for the task, γ_I = ¼ for the intrinsic stream, so γλ is ¼ and ⅛; coefficients 2 and 8.

    Task: δ₂ = 4 + ½·8 − 2 = 6; δ₁ = 2 − 1 = 1, the episode is over; δ₀ = 1 + ½·1 − 1 = ½.
    A = [½ + ¼·1, 1, 6] = [¾, 1, 6].
    Intrinsic: δ₂ = 1 + ¼·2 − 1 = ½; δ₁ = 4 + ¼·1 − 2 = 2¼, over the episode's end; δ₀ = 2 + ¼·2 − 4 = −1½.
    A_I = [−1½ + ⅛·(2¼ + ⅛·½), 2¼ + ⅛·½, ½] = [−1.2109375, 2.3125, 0.5].
    """
    buffer = full_buffer()
    estimate_advantages(buffer, np.zeros(1, bool))
    assert buffer.rollout.advantages[:, 0].tolist() == [0.75, 1.0, 6.0]
    add_intrinsic_advantages(buffer, discount=0.25, weight=8.0, extrinsic_coef=2.0)
    assert buffer.rollout.advantages[:, 0].tolist() == [
        2 * 0.75 + 8 * -1.2109375,
        2 * 1.0 + 8 * 2.3125,
        2 * 6.0 + 8 * 0.5,
    ]
    stream: Any = buffer.rollout.own_stream
    assert stream.returns[:, 0].tolist() == [4 - 1.2109375, 2 + 2.3125, 1 + 0.5]
    assert buffer.rollout.returns[:, 0].tolist() == [1.75, 2.0, 8.0]  # of the task alone


def test_a_row_that_does_not_train_cuts_the_stream() -> None:
    """Before it, the stream is worth V_I of what comes next: A_I[0] = 2 + ¼·2 − 4, without what follows."""
    buffer = full_buffer()
    buffer.rollout.valid = np.array([[True], [False], [True]])
    estimate_advantages(buffer, np.zeros(1, bool))
    add_intrinsic_advantages(buffer, discount=0.25, weight=1.0, extrinsic_coef=0.0)
    assert buffer.rollout.advantages[0, 0] == -1.5
    assert buffer.rollout.advantages[2, 0] == 0.5


def test_minibatches_have_both_values_and_the_losses_add_up() -> None:
    buffer = full_buffer()
    estimate_advantages(buffer, np.zeros(1, bool))
    add_intrinsic_advantages(buffer, 0.25, 1.0)
    batch: Minibatch = on_device(buffer.rollout, torch.device("cpu"))
    assert batch.old_values.tolist() == [[1.0, 4.0], [1.0, 2.0], [2.0, 1.0]]
    assert batch.returns[:, 0].tolist() == [1.75, 2.0, 8.0]
    values = batch.old_values + 1.0
    wanted = sum(value_error(values[:, i], batch.old_values[:, i], batch.returns[:, i], 0.5) for i in (0, 1))
    assert float(value_errors(values, batch.old_values, batch.returns, 0.5)) == pytest.approx(float(wanted))


def test_an_agent_combines_its_streams_with_its_own_numbers() -> None:
    env = make_vec_env("CartPole-v1", n_envs=2, seed=1)
    reward = RND(latent_dim=8, own_value=True, discount=0.9, extrinsic_coef=2.0, beta=0.5, kappa=0.1)
    arguments = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "seed": 0, "gamma": 0.98, "gae_lambda": 0.9}
    model = PPO("MlpPolicy", env, **arguments, intrinsic_reward=reward)
    model.learn(128)
    rollout = model.rollout_buffer.rollout
    combined, stream = rollout.advantages.copy(), rollout.own_stream
    assert (rollout.rewards == 1.0).all()  # the environment's alone
    estimate_advantages(model.rollout_buffer, model._last_episode_starts)
    task = rollout.advantages.copy()
    intrinsic, following = np.zeros(2), stream.last_values
    weight = 0.5 * 0.9**2  # this was the second rollout
    for step in reversed(range(32)):
        delta = rollout.intrinsic_rewards[step] + 0.9 * following - stream.values[step]
        intrinsic = delta + 0.9 * 0.9 * intrinsic
        following = stream.values[step]
        np.testing.assert_allclose(combined[step], 2.0 * task[step] + weight * intrinsic, rtol=1e-4, atol=1e-4)


def test_without_a_discount_of_its_own_the_agents_counts() -> None:
    arguments = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "seed": 0, "gamma": 0.7}
    trained = []
    for discount in (None, 0.7, 0.1):
        model = PPO(
            "MlpPolicy", "CartPole-v1", **arguments, intrinsic_reward=RND(own_value=True, discount=discount, gamma=0.5)
        )
        model.learn(32)
        trained.append(model.policy.parameters_to_vector())
    np.testing.assert_array_equal(trained[0], trained[1])
    assert not np.array_equal(trained[0], trained[2])
