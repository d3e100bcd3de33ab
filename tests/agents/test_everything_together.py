"""Memory, masks, hybrid actions and Dict observations in one PPO, on a task that needs each of them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from proximo import PPO, make_vec_env

EPISODES = 200


class Heist(gym.Env[Any, Any]):
    """Two passages, then a vault with two doors.

    The first observation, and no other, tells which door of the vault is the right one (memory). In a passage one of
    the doors 2 and 3 is deadly, as chance has it; only the mask tells which (masks). At every step the hand must aim at
    a mark that the key ``mark`` shows (a continuous part beside the choice, and a second key of the observation).
    """

    passages = 2

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            hint=spaces.Box(-1.0, 1.0, (1,), np.float32), mark=spaces.Box(-1.0, 1.0, (1,), np.float32)
        )
        self.action_space = spaces.Dict(door=spaces.Discrete(4), aim=spaces.Box(-1.0, 1.0, (1,), np.float32))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.misses = 0, []
        self.right = int(self.np_random.integers(2))
        return self._look(), {}

    def _look(self) -> dict[str, Any]:
        self.safe = int(self.np_random.integers(2, 4))
        self.mark = self.np_random.uniform(-0.9, 0.9, 1).astype(np.float32)
        hint = (2.0 * self.right - 1.0) if self.steps == 0 else 0.0
        return {"hint": np.array([hint], np.float32), "mark": self.mark}

    def action_masks(self) -> Any:
        return np.arange(4) < 2 if self.steps == self.passages else np.arange(4) == self.safe

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        alive = bool(self.action_masks()[action["door"]])
        self.misses.append(float(np.abs(action["aim"] - self.mark)[0]))
        at_vault = self.steps == self.passages
        robbed = alive and at_vault and action["door"] == self.right
        self.steps += 1
        reward = 1.0 - self.misses[-1] + 2.0 * robbed - 2.0 * (not alive)
        success = bool(robbed and max(self.misses) < 0.4)
        return self._look(), float(reward), at_vault or not alive, False, {"is_success": success}


def train(policy: str, masks: bool, steps: int) -> PPO:
    env = make_vec_env(Heist, n_envs=8, seed=0)
    memory = {"lstm_hidden_size": 32} if "Lstm" in policy else {}
    model = PPO(
        policy,
        env,
        n_steps=60,
        batch_size=240,
        n_epochs=6,
        learning_rate=4e-3,
        gamma=0.95,
        seed=1,
        policy_kwargs={"net_arch": [32], "log_std_init": -1.0, **memory},
    )
    return model.learn(steps, use_masking=masks)


def success_rate(model: PPO, masks: bool) -> float:
    """Of episodes played without exploration, the share with the right door and a steady hand."""
    env = make_vec_env(Heist, n_envs=8, seed=100)
    observations, state, starts, successes = env.reset(), None, np.ones(8, bool), []
    while len(successes) < EPISODES:
        options = {"action_masks": env.action_masks()} if masks else {}
        actions, state = model.predict(observations, state, starts, deterministic=True, **options)
        observations, _, starts, infos = env.step(actions)
        successes += [info["is_success"] for info, ended in zip(infos, starts, strict=True) if ended]
    return float(np.mean(successes))


def test_all_together_succeeds() -> None:
    model = train("MultiInputLstmPolicy", masks=True, steps=12_000)
    assert success_rate(model, masks=True) > 0.9
    assert success_rate(model, masks=False) < 0.7  # what was learned with masks needs them


@pytest.mark.parametrize(("policy", "masks"), [("MultiInputPolicy", True), ("MultiInputLstmPolicy", False)],
                         ids=["without memory", "without masks"])  # fmt: skip
def test_each_part_is_needed(policy: str, masks: bool) -> None:
    """Without memory the vault's door is a guess (1/2); without masks so is the door of each passage (1/4)."""
    model = train(policy, masks, steps=12_000)
    assert success_rate(model, masks) < (0.65 if masks else 0.4)
