"""Pendulum with rewards of another size, with and without ``normalize_returns``.

``python -m benchmarks.value_normalization``

Prints the mean return of 20 deterministic episodes, in the environment's own rewards, for each seed.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from proximo import PPO, evaluate_policy, make_vec_env

ARGUMENTS: dict[str, Any] = {  # RL Zoo's for Pendulum, without its state-dependent noise
    "n_steps": 1024,
    "gamma": 0.9,
    "learning_rate": 1e-3,
    "batch_size": 64,
    "n_epochs": 10,
}


class ScaledRewards(gym.RewardWrapper[Any, Any]):
    """Rewards times a number."""

    def __init__(self, env: gym.Env[Any, Any], scale: float) -> None:
        super().__init__(env)
        self.scale = scale

    def reward(self, reward: Any) -> float:
        return self.scale * float(reward)


def scaled_pendulum(scale: float) -> gym.Env[Any, Any]:
    return ScaledRewards(gym.make("Pendulum-v1"), scale)


def trained_return(scale: float, normalize_returns: bool, seed: int, steps: int) -> float:
    env = make_vec_env(partial(scaled_pendulum, scale), n_envs=4, seed=seed)
    model = PPO("MlpPolicy", env, normalize_returns=normalize_returns, seed=seed, **ARGUMENTS).learn(steps)
    mean, _ = evaluate_policy(model, make_vec_env("Pendulum-v1", seed=1000 + seed), n_eval_episodes=20)
    return float(mean)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100_000)
    options = parser.parse_args()
    for scale in (1.0, 1000.0):
        for normalize_returns in (False, True):
            found = [trained_return(scale, normalize_returns, seed, options.steps) for seed in range(options.seeds)]
            shown = ", ".join(f"{value:.0f}" for value in found)
            print(
                f"scale {scale:g}, normalize_returns={normalize_returns}: mean {np.mean(found):.0f} ({shown})",
                flush=True,
            )


if __name__ == "__main__":
    main()
