"""The family of on-policy algorithms, one small member of each kind, for tests that hold for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo import A2C, PPG, PPO, TRPO, MaskablePPO, RecurrentPPO, make_vec_env

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2}
MEMORY: dict[str, Any] = {"policy_kwargs": {"lstm_hidden_size": 8, "net_arch": [8]}}
HYBRID = spaces.Dict(
    kind=spaces.Discrete(3, start=1),
    power=spaces.Box(-0.5, 0.5, (2,), np.float32),
    switches=spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3])]),
)


class Corridor(gym.Env[Any, Any]):
    """Steps to left and right; walking on is rewarded. Every action is checked against space and mask."""

    def __init__(self, action_space: Any = None, dictionary: bool = False) -> None:
        self.action_space = action_space or spaces.Discrete(4)
        vector = spaces.Box(-20.0, 20.0, (2,), np.float32)
        self.dictionary = dictionary
        self.observation_space: Any = spaces.Dict(place=vector, parity=spaces.Discrete(2)) if dictionary else vector

    def observation(self) -> Any:
        place = np.array([self.place, self.steps / 10.0], np.float32)
        return {"place": place, "parity": np.int64(self.steps % 2)} if self.dictionary else place

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.normal()), 0
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), (action, self.action_space)
        hybrid = isinstance(action, dict)
        kind = int(action["kind"]) - 1 if hybrid else int(action)
        assert self.mask_of_kind()[kind], (kind, self.mask_of_kind())
        pull = float(action["power"].sum()) if hybrid else 0.0
        self.place += kind - 1 + pull + 0.1 * float(self.np_random.normal())
        self.steps += 1
        return self.observation(), self.place, abs(self.place) > 8.0, self.steps >= 9, {}

    def mask_of_kind(self) -> Any:
        kinds = 3 if isinstance(self.action_space, spaces.Dict) else 4
        return np.ones(kinds, bool)

    def action_masks(self) -> Any:
        rest = [True] * 9 if isinstance(self.action_space, spaces.Dict) else []
        return np.concatenate([self.mask_of_kind(), rest]).astype(bool)


class MaskedCorridor(Corridor):
    """Forbids one action, another one in every step."""

    def mask_of_kind(self) -> Any:
        allowed = super().mask_of_kind()
        allowed[self.steps % len(allowed)] = False
        return allowed


def hybrid() -> gym.Env[Any, Any]:
    return Corridor(HYBRID)


def discrete_hybrid() -> gym.Env[Any, Any]:
    """Hybrid without any continuous part: the deviations are no numbers at all."""
    return Corridor(spaces.Dict(kind=spaces.Discrete(3, start=1), power=spaces.MultiBinary(2)))


def everything() -> gym.Env[Any, Any]:
    return MaskedCorridor(HYBRID, dictionary=True)


@dataclass(frozen=True)
class Member:
    """How one member of the family is made and taught."""

    algorithm: type[Any]
    policy: str
    environment: Any
    arguments: dict[str, Any] = field(default_factory=dict)
    masks: bool = False
    passes: int | None = None  # over the rollout per update; None where n_epochs says it
    loss: str = "entropy_loss"  # logged beside the value's

    def env(self, n_envs: int = 2, vec_env_cls: Any = None) -> Any:
        return make_vec_env(self.environment, n_envs=n_envs, seed=0, vec_env_cls=vec_env_cls)

    def make(self, n_envs: int = 2, vec_env_cls: Any = None, **overrides: Any) -> Any:
        return self.algorithm(self.policy, self.env(n_envs, vec_env_cls), **({"seed": 3} | self.arguments | overrides))

    def learn(self, model: Any, steps: int, **options: Any) -> Any:
        return model.learn(steps, use_masking=self.masks, **options)


FAMILY: dict[str, Member] = {
    "ppo": Member(PPO, "MlpPolicy", "CartPole-v1", SMALL),
    "a2c": Member(A2C, "MlpPolicy", "CartPole-v1", {"n_steps": 16}),
    "a2c with Adam": Member(A2C, "MlpPolicy", "Pendulum-v1", {"n_steps": 16, "use_rms_prop": False}),
    "ppg": Member(PPG, "MlpPolicy", "CartPole-v1", SMALL | {"policy_epochs": 2, "value_epochs": 2}),
    "ppg, hybrid with masks": Member(
        PPG, "MultiInputPolicy", everything, SMALL | {"policy_epochs": 2, "value_epochs": 2}, masks=True
    ),
    "trpo": Member(
        TRPO, "MlpPolicy", "CartPole-v1", {"n_steps": 16, "batch_size": 16}, passes=11, loss="policy_objective"
    ),
    "noise": Member(PPO, "MlpPolicy", "Pendulum-v1", SMALL | {"use_sde": True, "sde_sample_freq": 4}),
    "a2c with noise": Member(A2C, "MlpPolicy", "Pendulum-v1", {"n_steps": 16, "use_sde": True}),
    "lstm": Member(RecurrentPPO, "MlpLstmPolicy", "CartPole-v1", SMALL | MEMORY),
    "gru": Member(PPO, "MlpGruPolicy", "CartPole-v1", SMALL | MEMORY | {"batch_size": 8}),
    "a2c with memory": Member(A2C, "MlpLstmPolicy", "CartPole-v1", {"n_steps": 16} | MEMORY),
    "masks": Member(MaskablePPO, "MlpPolicy", MaskedCorridor, SMALL, masks=True),
    "a2c with masks": Member(A2C, "MlpPolicy", MaskedCorridor, {"n_steps": 16}, masks=True),
    "hybrid": Member(PPO, "MlpPolicy", hybrid, SMALL),
    "hybrid, discrete only": Member(PPO, "MlpPolicy", discrete_hybrid, SMALL),
    "everything": Member(PPO, "MultiInputLstmPolicy", everything, SMALL | MEMORY, masks=True),
}
every_member = pytest.mark.parametrize("member", FAMILY.values(), ids=FAMILY)


def weights(model: Any) -> torch.Tensor:
    return torch.cat([value.flatten() for value in model.policy.state_dict().values()]).clone()
