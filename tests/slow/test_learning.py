"""Proof by training: presets reach the scores of the zoo they come from, seed after seed."""

from __future__ import annotations

import numpy as np
import pytest

from proximo import PPO, evaluate_policy
from proximo.envs import VecNormalize, sync_envs_normalization, unwrap_vec_normalize
from proximo.zoo import load_preset, make_preset_env

pytestmark = pytest.mark.slow


def train_and_evaluate(env_id: str, seed: int, steps: int | None = None, episodes: int = 100) -> float:
    """Mean return of the preset's agent over ``episodes`` episodes, without exploration."""
    preset = load_preset("ppo", env_id)
    env = make_preset_env(preset, env_id, seed=seed)
    arguments = preset.model_arguments()
    policy = arguments.pop("policy", None) or preset.policy or "MlpPolicy"
    model = PPO(policy, env, seed=seed, **arguments)
    model.learn(steps or preset.n_timesteps)
    evaluation_env = make_preset_env(preset, env_id, n_envs=4, seed=seed + 1_000, training=False)
    if isinstance(unwrap_vec_normalize(evaluation_env), VecNormalize):
        sync_envs_normalization(env, evaluation_env)
    mean, _ = evaluate_policy(model, evaluation_env, n_eval_episodes=episodes)
    return float(mean)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cartpole_is_solved(seed: int) -> None:
    assert train_and_evaluate("CartPole-v1", seed) >= 475.0


def test_pendulum_swings_up() -> None:
    """The zoo reports −172 ± 104 for one agent; a hundred episodes leave ±10 of chance in each mean."""
    means = [train_and_evaluate("Pendulum-v1", seed) for seed in (1, 2, 3)]
    assert np.mean(means) >= -200.0, means
    assert min(means) >= -230.0, means


@pytest.mark.parametrize(("env_id", "wanted"), [("Hopper-v5", 400.0), ("HalfCheetah-v5", 300.0)])
def test_locomotion_gets_off_the_ground(env_id: str, wanted: float) -> None:
    """A short run: random play gets about 18 on Hopper and −280 on HalfCheetah."""
    assert train_and_evaluate(env_id, seed=1, steps=150_000, episodes=20) >= wanted


def test_whole_runs_are_statistically_those_of_stable_baselines() -> None:
    """CartPole with all defaults but small rollouts: the mean returns after 16,384 steps agree over eight seeds."""
    from stable_baselines3 import PPO as OraclePPO
    from stable_baselines3.common.env_util import make_vec_env as oracle_vec_env

    from proximo import make_vec_env

    def final_return(library: object, make: object, seed: int) -> float:
        env = make("CartPole-v1", n_envs=4, seed=seed)  # type: ignore[operator]
        model = library("MlpPolicy", env, n_steps=256, seed=seed, device="cpu").learn(16_384)  # type: ignore[operator]
        return float(np.mean([episode["r"] for episode in model.ep_info_buffer]))

    ours = [final_return(PPO, make_vec_env, seed) for seed in range(8)]
    theirs = [final_return(OraclePPO, oracle_vec_env, seed) for seed in range(8)]
    spread = np.sqrt((np.var(ours, ddof=1) + np.var(theirs, ddof=1)) / 8)
    assert abs(np.mean(ours) - np.mean(theirs)) < 4 * spread, (ours, theirs)
    assert min(np.mean(ours), np.mean(theirs)) > 100
