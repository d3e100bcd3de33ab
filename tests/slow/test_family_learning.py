"""Proof by training for the family: A2C, state-dependent noise, memory and masks learn, as the originals do.

Three seeds each. Where Stable-Baselines3 or sb3-contrib is run beside, on the same seeds and steps, the two means must
agree within their 95 % intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from proximo import A2C, PPO, MaskablePPO, evaluate_policy, make_vec_env
from proximo.envs import VecNormalize, sync_envs_normalization
from proximo.envs.testing.environments import HideVelocity, InvalidActionEnvDiscrete
from proximo.zoo import load_preset, make_preset_env

pytestmark = pytest.mark.slow
SEEDS = (1, 2, 3)
STUDENT = 4.30  # 97.5 % quantile of Student's t with two degrees of freedom: three seeds


def mean_and_half_width(scores: list[float]) -> tuple[float, float]:
    return float(np.mean(scores)), STUDENT * float(np.std(scores, ddof=1)) / len(scores) ** 0.5


def assert_alike(ours: list[float], theirs: list[float], slack: float) -> None:
    """The means differ by no more than both intervals together, or by ``slack``, which scores near the top leave."""
    (mean, width), (their_mean, their_width) = mean_and_half_width(ours), mean_and_half_width(theirs)
    print(f"ours {mean:.1f} ± {width:.1f} {ours}, theirs {their_mean:.1f} ± {their_width:.1f} {theirs}")
    assert abs(mean - their_mean) <= max(width + their_width, slack), (ours, theirs)


def play(model: Any, env: Any, episodes: int = 50, **options: Any) -> float:
    mean, _ = evaluate_policy(model, env, n_eval_episodes=episodes, **options)
    return float(mean)


def train_preset(algorithm: Any, name: str, env_id: str, seed: int) -> float:
    preset = load_preset(name, env_id)
    env = make_preset_env(preset, env_id, seed=seed)
    arguments = preset.model_arguments()
    model = algorithm(arguments.pop("policy", None) or preset.policy, env, seed=seed, **arguments)
    model.learn(preset.n_timesteps)
    return play(model, make_preset_env(preset, env_id, n_envs=4, seed=seed + 1_000, training=False))


def train_oracle(algorithm: Any, name: str, env_id: str, seed: int) -> float:
    from stable_baselines3.common.env_util import make_vec_env as oracle_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy as oracle_evaluation

    preset = load_preset(name, env_id)
    arguments = preset.model_arguments()
    policy = arguments.pop("policy", None) or preset.policy
    env = oracle_vec_env(env_id, n_envs=preset.n_envs, seed=seed)
    model = algorithm(policy, env, seed=seed, device="cpu", **arguments).learn(preset.n_timesteps)
    mean, _ = oracle_evaluation(model, oracle_vec_env(env_id, n_envs=4, seed=seed + 1_000), n_eval_episodes=50)
    return float(mean)


def test_a2c_solves_cartpole() -> None:
    """The zoo reports 500 ± 0 after 500,000 steps."""
    from stable_baselines3 import A2C as OracleA2C

    ours = [train_preset(A2C, "a2c", "CartPole-v1", seed) for seed in SEEDS]
    assert np.mean(ours) >= 450.0, ours
    assert min(ours) >= 350.0, ours
    assert_alike(ours, [train_oracle(OracleA2C, "a2c", "CartPole-v1", seed) for seed in SEEDS], slack=50.0)


def test_state_dependent_noise_swings_the_pendulum_up() -> None:
    """The zoo reports −172 ± 104 for one agent; fifty episodes leave ±15 of chance in each mean."""
    from stable_baselines3 import PPO as OraclePPO

    assert load_preset("ppo", "Pendulum-v1").model_arguments()["use_sde"] is True
    ours = [train_preset(PPO, "ppo", "Pendulum-v1", seed) for seed in SEEDS]
    assert np.mean(ours) >= -200.0, ours
    assert_alike(ours, [train_oracle(OraclePPO, "ppo", "Pendulum-v1", seed) for seed in SEEDS], slack=40.0)


WITHOUT_VELOCITIES: dict[str, Any] = {
    "n_steps": 128,
    "batch_size": 128,
    "n_epochs": 5,
    "gamma": 0.98,
    "gae_lambda": 0.9,
    "learning_rate": lambda progress: 2e-3 * progress,
    "clip_range": lambda progress: 0.2 * progress + 1e-3,
}


def make_without_velocities() -> gym.Env[Any, Any]:
    return HideVelocity(gym.make("CartPole-v1"))


def train_without_velocities(policy: str, seed: int, steps: int = 100_000) -> float:
    make = make_without_velocities
    # rewards are normalised too: returns of 100 would leave the policy little of the clipped gradient
    env = VecNormalize(make_vec_env(make, n_envs=8, seed=seed), gamma=0.98)
    memory = {} if policy == "MlpPolicy" else {"lstm_hidden_size": 64, "ortho_init": False}
    network = {"net_arch": [64], **memory}
    model = PPO(policy, env, seed=seed, policy_kwargs=network, **WITHOUT_VELOCITIES)
    model.learn(steps)
    evaluation_env = VecNormalize(make_vec_env(make, n_envs=4, seed=seed + 1_000), training=False, norm_reward=False)
    sync_envs_normalization(env, evaluation_env)
    return play(model, evaluation_env)


def train_oracle_without_velocities(seed: int, steps: int = 100_000) -> float:
    from sb3_contrib import RecurrentPPO as Oracle
    from stable_baselines3.common import vec_env
    from stable_baselines3.common.env_util import make_vec_env as oracle_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy as oracle_evaluation

    env = vec_env.VecNormalize(oracle_vec_env(make_without_velocities, n_envs=8, seed=seed), gamma=0.98)
    network = {"net_arch": [64], "lstm_hidden_size": 64, "ortho_init": False}
    model = Oracle("MlpLstmPolicy", env, seed=seed, device="cpu", policy_kwargs=network, **WITHOUT_VELOCITIES)
    model.learn(steps)
    raw = oracle_vec_env(make_without_velocities, n_envs=4, seed=seed + 1_000)
    evaluation_env = vec_env.VecNormalize(raw, training=False, norm_reward=False)
    vec_env.sync_envs_normalization(env, evaluation_env)
    mean, _ = oracle_evaluation(model, evaluation_env, n_eval_episodes=50)
    return float(mean)


def test_memory_balances_a_pole_without_velocities() -> None:
    ours = [train_without_velocities("MlpLstmPolicy", seed) for seed in SEEDS]
    assert np.mean(ours) >= 450.0, ours
    assert min(ours) >= 350.0, ours
    assert_alike(ours, [train_oracle_without_velocities(seed) for seed in SEEDS], slack=50.0)


def test_a_gru_remembers_velocities_too() -> None:
    assert train_without_velocities("MlpGruPolicy", SEEDS[0]) >= 300.0  # without memory at most 120


def test_without_memory_the_pole_falls() -> None:
    assert max(train_without_velocities("MlpPolicy", seed) for seed in SEEDS) < 120.0


def train_masked(algorithm: Any, make_env: Callable[[], Any], seed: int, **options: Any) -> float:
    """Mean reward per episode over the last hundred: 100 is every action right, 1.25 what chance gets of 80 actions."""
    model = algorithm("MlpPolicy", make_env(), seed=seed, device="cpu", n_steps=512, gamma=0.4, ent_coef=0.0)
    model.learn(30_000, **options)
    return float(np.mean([episode["r"] for episode in list(model.ep_info_buffer)[-10:]]))


def test_masks_leave_twenty_of_eighty_actions() -> None:
    from sb3_contrib import MaskablePPO as OracleMaskablePPO
    from sb3_contrib.common.envs import InvalidActionEnvDiscrete as OracleEnv

    ours = [train_masked(MaskablePPO, lambda: InvalidActionEnvDiscrete(80, n_invalid_actions=60), s) for s in SEEDS]
    theirs = [train_masked(OracleMaskablePPO, lambda: OracleEnv(80, n_invalid_actions=60), s) for s in SEEDS]
    free = [
        train_masked(MaskablePPO, lambda: InvalidActionEnvDiscrete(80, n_invalid_actions=60), s, use_masking=False)
        for s in SEEDS
    ]
    assert np.mean(ours) > 90.0, ours
    assert np.mean(ours) > 1.5 * np.mean(free), (ours, free)
    assert_alike(ours, theirs, slack=8.0)
