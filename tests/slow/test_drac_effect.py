"""Proof by training: with an augmentation of colours (DrAC) a policy finds its way before backgrounds it never saw."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from proximo import PPO, evaluate_policy
from proximo.augmentation import RandomConvolution
from proximo.envs import DummyVecEnv
from proximo.networks.published_encoders import PathakCnnEncoder

SEEDS = (1, 2, 3)
STEPS = 8_192
SIDE = 16
TRAINED = [(60, 0, 0), (0, 60, 0)]  # backgrounds of the training: dark red and dark green
UNSEEN = [(0, 0, 200), (150, 150, 0), (0, 170, 170), (190, 0, 190)]


class Sides(gym.Env[Any, Any]):
    """A white square to the left or to the right, before a background of one colour; say where. 16 per episode."""

    observation_space = spaces.Box(0, 255, (3, SIDE, SIDE), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self, backgrounds: list[tuple[int, int, int]]) -> None:
        self.backgrounds = backgrounds

    def picture(self) -> Any:
        image = np.empty((3, SIDE, SIDE), np.uint8)
        image[:] = np.reshape(self.backgrounds[self.np_random.integers(len(self.backgrounds))], (3, 1, 1))
        self.right = int(self.np_random.integers(2))
        top, left = self.np_random.integers(SIDE - 4), self.np_random.integers(SIDE // 2 - 4 + 1)
        left += self.right * SIDE // 2
        image[:, top : top + 4, left : left + 4] = 255
        return image

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self.picture(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(int(action) == self.right)
        self.count += 1
        return self.picture(), reward, self.count == 16, False, {}


def accuracies(seed: int, augmentation: Any) -> tuple[float, float]:
    """Share of right answers before the backgrounds of the training, and before others."""
    env = DummyVecEnv([lambda: Sides(TRAINED)] * 8)
    model = PPO(
        "CnnPolicy",
        env,
        n_steps=64,
        batch_size=128,
        n_epochs=4,
        learning_rate=1e-3,
        gamma=0.0,
        seed=seed,
        device="cpu",
        augmentation=augmentation,
        policy_kwargs={"features_extractor_class": PathakCnnEncoder, "features_extractor_kwargs": {"feature_dim": 64}},
    )
    model.learn(STEPS)
    scores = []
    for backgrounds in (TRAINED, UNSEEN):
        tests = DummyVecEnv([lambda chosen=backgrounds: Sides(chosen)] * 8)
        tests.seed(1000 + seed)
        mean, _ = evaluate_policy(model, tests, n_eval_episodes=64, warn=False)
        scores.append(float(mean) / 16)
    return scores[0], scores[1]


@pytest.mark.slow
def test_an_augmentation_of_colours_helps_before_unseen_backgrounds() -> None:
    plain = [accuracies(seed, None) for seed in SEEDS]
    augmented = [accuracies(seed, RandomConvolution()) for seed in SEEDS]
    for name, scores in (("without", plain), ("with", augmented)):
        trained, unseen = np.mean(scores, axis=0)
        rows = ", ".join(f"{of_trained:.3f}/{of_unseen:.3f}" for of_trained, of_unseen in scores)
        print(f"{name} augmentation: trained {trained:.3f}, unseen {unseen:.3f} (seeds {rows})")
    assert min(of_trained for of_trained, _ in [*plain, *augmented]) > 0.9
    assert np.mean(augmented, axis=0)[1] > np.mean(plain, axis=0)[1] + 0.1
