"""Small trainings that run alike in one process and in many, and what they end with."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proximo import A2C, PPG, PPO, TRPO, MaskablePPO, RecurrentPPO
from proximo.augmentation import Mirror
from proximo.envs import VecEnv, VecNormalize, make_vec_env
from proximo.exploration import RND
from proximo.training.callbacks import BaseCallback
from proximo.training.checkpoints import CheckpointFolder, PeriodicCheckpoints


class Walk(gym.Env[Any, Any]):
    """A walk on a line of length 7: ends at its ends, cut after a while; actions that lead nowhere are masked."""

    def __init__(self, limit: int = 9, continuous: bool = False) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32) if continuous else spaces.Discrete(3)
        self.limit, self.continuous = limit, continuous
        self.place, self.steps = 0.0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.uniform(-0.3, 0.3)), 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        move = float(action[0] - 0.5 * action[1]) if self.continuous else float(action - 1)
        self.place += 0.2 * move + 0.05 * float(self.np_random.normal())
        self.steps += 1
        ended = abs(self.place) > 1.0
        info = {"is_success": self.place > 0.0} if ended else {}
        return self._observation(), self.place - 0.1 * abs(move), ended, self.steps >= self.limit, info

    def _observation(self) -> Any:
        numbers = [self.place, np.sin(5.0 * self.place), self.steps / self.limit]
        return np.clip(np.array(numbers, np.float32), -1.0, 1.0)

    def get_state(self) -> dict[str, Any]:
        return {"place": self.place, "steps": self.steps}

    def set_state(self, state: dict[str, Any]) -> None:
        self.place, self.steps = state["place"], state["steps"]

    def action_masks(self) -> Any:
        return np.array([self.place > -0.8, True, self.place < 0.8])


def environments(count: int, normalize: bool | Literal["rollout"] = False, **arguments: Any) -> VecEnv:
    env = make_vec_env(Walk, n_envs=count, env_kwargs=arguments, seed=5)
    if normalize == "rollout":
        return VecNormalize(env, gamma=0.9, update_every="rollout")
    return VecNormalize(env, gamma=0.9) if normalize else env


SMALL = {"policy_kwargs": {"net_arch": [16, 16]}, "seed": 3}
PPO_SMALL = {**SMALL, "n_steps": 24, "batch_size": 32, "n_epochs": 3, "learning_rate": 3e-3}
CONTINUOUS = {"continuous": True}
MIRROR = Mirror(observation_signs=[-1, -1, 1], action_signs=[-1, -1])

# name → (class, policy, arguments, arguments of the environments, normalised)
CASES: dict[str, tuple[Any, str, dict[str, Any], dict[str, Any], bool | Literal["rollout"]]] = {
    "discrete": (PPO, "MlpPolicy", PPO_SMALL, {}, False),
    "box": (PPO, "MlpPolicy", PPO_SMALL, CONTINUOUS, False),
    "normalized": (PPO, "MlpPolicy", PPO_SMALL, CONTINUOUS, True),
    "normalized_per_rollout": (PPO, "MlpPolicy", PPO_SMALL, CONTINUOUS, "rollout"),
    "target_kl": (PPO, "MlpPolicy", {**PPO_SMALL, "target_kl": 0.003, "n_epochs": 6}, {}, False),
    "sde": (PPO, "MlpPolicy", {**PPO_SMALL, "use_sde": True, "sde_sample_freq": 5}, CONTINUOUS, False),
    "rnd": (PPO, "MlpPolicy", {**PPO_SMALL, "intrinsic_reward": RND}, {}, False),
    "scales": (
        PPO,
        "MlpPolicy",
        {**PPO_SMALL, "normalize_returns": True, "learning_rate": "kl_0.01"},
        CONTINUOUS,
        False,
    ),
    "mirror": (PPO, "MlpPolicy", {**PPO_SMALL, "augmentation": MIRROR}, CONTINUOUS, False),
    "masks": (MaskablePPO, "MlpPolicy", PPO_SMALL, {}, False),
    "a2c": (A2C, "MlpPolicy", {**SMALL, "n_steps": 6}, {}, False),
    "trpo": (TRPO, "MlpPolicy", {**SMALL, "n_steps": 24, "batch_size": 32, "n_critic_updates": 2}, {}, False),
    "ppg": (
        PPG,
        "MlpPolicy",
        {**PPO_SMALL, "rollouts_per_phase": 2, "aux_epochs": 2, "num_aux_mini_batch": 2, "value_epochs": 2},
        {},
        False,
    ),
    "lstm": (
        RecurrentPPO,
        "MlpLstmPolicy",
        {**PPO_SMALL, "policy_kwargs": {"net_arch": [8], "lstm_hidden_size": 8}},
        {},
        False,
    ),
}


def make_model(name: str, count: int, **changes: Any) -> Any:
    kind, policy, arguments, of_env, normalize = CASES[name]
    given = {**arguments, **changes}
    if "intrinsic_reward" in given:
        given["intrinsic_reward"] = given["intrinsic_reward"]()
    return kind(policy, environments(count, normalize, **of_env), **given)


def outcome(model: Any) -> dict[str, Any]:
    """All that must agree between one process and many."""
    normalizer = model.get_vec_normalize_env()
    statistics = {} if normalizer is None else {k: v for k, v in normalizer.state().items() if k != "returns"}
    moments = [
        value.detach().numpy().copy()
        for parameter in model.policy.parameters()
        for _, value in sorted(model.policy.optimizer.state.get(parameter, {}).items())
        if hasattr(value, "detach")
    ]
    return {
        "weights": np.concatenate([part.detach().numpy().reshape(-1) for part in model.policy.parameters()]),
        "moments": np.concatenate([moment.reshape(-1) for moment in moments]) if moments else np.zeros(0),
        "statistics": statistics,
        "steps": model.num_timesteps,
        "episodes": [(episode["r"], episode["l"]) for episode in model.ep_info_buffer],
        "successes": list(model.ep_success_buffer),
        "generator": model.generator.bit_generator.state["state"]["state"],
        "metrics": {key: value for key, value in model.logger.name_to_value.items() if key.startswith("train/")},
        "backend": model.backend,
        "sharded": model.rollout_buffer.rollout.share is not None,
        "n_envs": model.n_envs,
    }


def train(name: str, counts: Sequence[int], steps: int, **changes: Any) -> dict[str, Any]:
    """Train a case: in the process of rank r with ``counts[r]`` environments, alone with all of them."""
    model = make_model(name, own_count(counts), **changes)
    model.learn(steps, log_interval=1)
    return outcome(model)


def train_all(cases: Sequence[tuple[str, Sequence[int], int, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [train(name, counts, steps, **changes) for name, counts, steps, changes in cases]


class StopAt(BaseCallback):
    """Ends the training between two iterations."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def _between_iterations(self) -> bool:
        return self.num_timesteps < self.steps


def own_count(counts: Sequence[int]) -> int:
    return counts[int(os.environ["RANK"])] if "RANK" in os.environ else sum(counts)


def begin(name: str, counts: Sequence[int], folder: str, total: int, stop_at: int, **changes: Any) -> dict[str, Any]:
    """Train until ``stop_at`` of ``total`` steps, with a checkpoint after each rollout."""
    model = make_model(name, own_count(counts), **changes)
    model.learn(total, callback=[PeriodicCheckpoints(folder, every_steps=1), StopAt(stop_at)])
    return outcome(model)


def go_on(name: str, counts: Sequence[int], folder: str, stop_at: int = 10**9) -> dict[str, Any]:
    """Train the rest from the newest checkpoint, or a part of it."""
    kind, _, _, of_env, normalize = CASES[name]
    newest = CheckpointFolder(folder).newest() if os.environ.get("RANK", "0") == "0" else "only rank 0 needs it"
    model = kind.load(newest, env=environments(own_count(counts), normalize, **of_env))
    model.resume(callback=[PeriodicCheckpoints(folder, every_steps=1), StopAt(stop_at)])
    return outcome(model)


class Dawdler(BaseCallback):
    """Lets one rank take ten times as long for its steps."""

    def _on_step(self) -> bool:
        now = time.monotonic()
        if self.model.rank == 1:
            time.sleep(min(9 * (now - getattr(self, "_last", now)), 0.05))
        self._last = time.monotonic()
        return True


def dawdle(name: str, counts: Sequence[int], steps: int) -> dict[str, Any]:
    model = make_model(name, own_count(counts))
    model.learn(steps, callback=Dawdler())
    return outcome(model)


def begin_all(tasks: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [begin(*arguments, **changes) for *arguments, changes in tasks]


def go_on_all(tasks: Sequence[tuple[str, Sequence[int], str]]) -> list[dict[str, Any]]:
    return [go_on(*arguments) for arguments in tasks]
