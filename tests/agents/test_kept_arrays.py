"""What users' code is given is theirs to keep: nothing that comes later changes it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from family import MEMORY, Corridor
from proximo import PPO, evaluate_policy, make_vec_env
from proximo.envs import as_vec_env
from proximo.training.callbacks import BaseCallback


def as_array(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


class Keeper:
    """Keeps what it is given, beside a copy of it as it was."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any, Any]] = []

    def keep(self, name: str, value: Any) -> None:
        self.kept.append((name, value, as_array(value).copy()))

    def changed(self) -> set[str]:
        return {name for name, value, before in self.kept if not np.array_equal(as_array(value), before)}


class KeptLocals(BaseCallback):
    names = ("actions", "clipped_actions", "values", "log_probs", "obs_tensor", "episode_starts", "new_obs", "rewards")

    def __init__(self) -> None:
        super().__init__()
        self.keeper = Keeper()

    def _on_step(self) -> bool:
        for name in self.names:
            self.keeper.keep(name, self.locals[name])
        if self.locals["action_masks"] is not None:
            self.keeper.keep("action_masks", self.locals["action_masks"])
        if self.locals["lstm_states"] is not None:
            for part in self.locals["lstm_states"].parts():
                self.keeper.keep("lstm_states", part)
        return True


@pytest.mark.parametrize("backend", ["fused", "torch"])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_locals_of_callbacks(backend: Any, env_id: str) -> None:
    callback = KeptLocals()
    PPO("MlpPolicy", make_vec_env(env_id, 2), n_steps=8, batch_size=16, backend=backend).learn(48, callback)
    assert len(callback.keeper.kept) == 24 * len(KeptLocals.names)
    assert callback.keeper.changed() == set()


def test_locals_with_memory_and_masks() -> None:
    callback = KeptLocals()
    model = PPO("MlpLstmPolicy", make_vec_env(Corridor, 2), n_steps=8, batch_size=8, **MEMORY)
    model.learn(48, callback, use_masking=True)
    assert {name for name, _, _ in callback.keeper.kept} == {*KeptLocals.names, "action_masks", "lstm_states"}
    assert callback.keeper.changed() == set()


class KeepsActions(gym.Env[Any, Any]):
    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)

    def __init__(self, action_space: spaces.Space[Any], keeper: Keeper) -> None:
        self.action_space = action_space
        self.keeper = keeper

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), (action, action.dtype, self.action_space)
        self.keeper.keep("action", action)
        return self.observation_space.sample(), 0.0, False, False, {}


ACTIONS = {
    "box": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "bounds that float32 rounds": spaces.Box(-0.1, 0.1, (2,), np.float64),
    "discrete": spaces.Discrete(3),
    "multidiscrete": spaces.MultiDiscrete([3, 4]),
    "integers": spaces.Box(0, 9, (2,), np.int64),
}


@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_actions_of_environments_lie_in_their_space_and_stay(actions: Any, backend: Any) -> None:
    keeper = Keeper()
    model = PPO("MlpPolicy", KeepsActions(actions, keeper), n_steps=8, batch_size=8, backend=backend, seed=0)
    model.learn(24)
    assert len(keeper.kept) == 24
    assert keeper.changed() == set()


def test_observations_of_predictors() -> None:
    keeper = Keeper()

    class Recorder:
        def predict(self, observation: Any, **_: Any) -> Any:
            keeper.keep("observation", observation)
            return np.zeros(len(observation), np.int64), None

    evaluate_policy(Recorder(), make_vec_env("CartPole-v1", 2), n_eval_episodes=4)  # type: ignore[arg-type]
    assert len(keeper.kept) > 10
    assert keeper.changed() == set()


def test_observations_of_vector_environments_that_reuse_their_memory() -> None:
    keeper = Keeper()
    env = as_vec_env(SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2, copy=False))
    keeper.keep("reset", env.reset())
    for _ in range(5):
        keeper.keep("step", env.step(np.zeros(2, np.int64))[0])
    assert keeper.changed() == set()
