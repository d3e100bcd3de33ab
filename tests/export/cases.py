"""Every action space and policy of the library, small, with weights that make the actions differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from tests.family import HYBRID

from proximo import A2C, DAAC, PPG, PPO, TRPO, MaskablePPO, RecurrentPPO


class RandomObservations(gym.Env[Any, Any]):
    """Observations at random, of any space."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 0.0, False, False, {}


VECTOR = spaces.Box(-np.inf, np.inf, (5,))
IMAGE = spaces.Box(0, 255, (40, 36, 3), np.uint8)
NESTED = spaces.Dict(
    place=spaces.Box(-1.0, 1.0, (3,)),
    kind=spaces.Discrete(4, start=2),
    pair=spaces.MultiDiscrete([2, 3]),
    flags=spaces.MultiBinary(3),
    arm=spaces.Dict(joints=spaces.Tuple([spaces.Box(0.0, 1.0, (2, 2))])),
)
ACTIONS: dict[str, Any] = {
    "box": spaces.Box(-1.0, 2.0, (2,)),
    "box64": spaces.Box(-1.3, 2.0, (2, 2), np.float64),
    "box16": spaces.Box(-1.25, 2.0, (), np.float16),
    "box_of_integers": spaces.Box(0, 3, (3,), np.int32),
    "box_of_bytes": spaces.Box(0, 3, (3,), np.uint8),
    "discrete": spaces.Discrete(4, start=-1),
    "multi_discrete": spaces.MultiDiscrete([2, 3], start=[1, -1]),
    "multi_binary": spaces.MultiBinary(3),
    "hybrid": HYBRID,
    "nested": spaces.Tuple(
        [
            spaces.Discrete(2),
            spaces.Tuple(
                [spaces.Box(-1.0, 1.0, (1,)), spaces.Dict(z=spaces.MultiBinary(1), a=spaces.Box(0, 2, (2,), np.int64))]
            ),
        ]
    ),
}  # fmt: skip
MEMORY = {"lstm_hidden_size": 8, "n_lstm_layers": 2, "net_arch": [8]}


@dataclass(frozen=True)
class Case:
    """A model, and how it is exported."""

    algorithm: Any
    policy: str
    observations: Any
    actions: str
    arguments: dict[str, Any] = field(default_factory=dict)
    export: dict[str, Any] = field(default_factory=dict)

    def make(self) -> Any:
        sizes = {"n_steps": 8} if self.algorithm is A2C else {"n_steps": 8, "batch_size": 8}
        env = RandomObservations(self.observations, ACTIONS[self.actions])
        return with_weights(self.algorithm(self.policy, env, seed=1, **sizes, **self.arguments))


def with_weights(model: Any) -> Any:
    """Other ones than a new policy's, whose actions all lie near zero."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.add_(
                torch.randn(parameter.shape, generator=generator) * (0.3 if parameter.numel() < 5000 else 0.02)
            )
    return model


SAMPLED, MASKED = {"stochastic": True}, {"action_masks": True}
SQUASHED = {"use_sde": True, "policy_kwargs": {"squash_output": True, "full_std": False, "use_expln": True}}

CASES: dict[str, Case] = {
    **{name: Case(PPO, "MlpPolicy", VECTOR, name) for name in ACTIONS},
    **{f"{name}-sampled": Case(PPO, "MlpPolicy", VECTOR, name, {}, SAMPLED) for name in ACTIONS},
    **{
        f"{name}-masked{'-sampled' * bool(more)}": Case(PPO, "MlpPolicy", VECTOR, name, {}, MASKED | more)
        for name in ("discrete", "multi_discrete", "multi_binary", "hybrid")
        for more in ({}, SAMPLED)
    },
    **{
        f"maskable-{name}": Case(MaskablePPO, "MlpPolicy", VECTOR, name)
        for name in ("discrete", "multi_discrete", "multi_binary")
    },
    **{
        f"{kind.lower()}-{name}": Case(PPO, f"Mlp{kind}Policy", VECTOR, name, {"policy_kwargs": MEMORY}, more)
        for kind in ("Lstm", "Gru")
        for name, more in (("box", SAMPLED), ("hybrid", MASKED))
    },
    "maskable-lstm": Case(MaskablePPO, "MlpLstmPolicy", VECTOR, "discrete", {"policy_kwargs": MEMORY}),
    "shared-lstm": Case(
        RecurrentPPO, "MlpLstmPolicy", VECTOR, "box",
        {"policy_kwargs": MEMORY | {"shared_lstm": True, "enable_critic_lstm": False}},
    ),
    "cnn": Case(PPO, "CnnPolicy", IMAGE, "discrete"),
    "cnn-lstm": Case(RecurrentPPO, "CnnLstmPolicy", IMAGE, "discrete", {"policy_kwargs": MEMORY}),
    "dictionary": Case(PPO, "MultiInputPolicy", NESTED, "hybrid"),
    "dictionary-with-image": Case(PPO, "MultiInputPolicy", spaces.Dict(view=IMAGE, place=VECTOR), "box"),
    "dictionary-gru": Case(PPO, "MultiInputGruPolicy", NESTED, "discrete", {"policy_kwargs": MEMORY}),
    "dictionary-lstm": Case(PPO, "MultiInputLstmPolicy", NESTED, "hybrid", {"policy_kwargs": MEMORY}, MASKED),
    "observed-discrete": Case(PPO, "MlpPolicy", spaces.Discrete(5, start=3), "discrete"),
    "observed-multi-discrete": Case(PPO, "MlpPolicy", spaces.MultiDiscrete([3, 4]), "discrete"),
    "observed-multi-binary": Case(PPO, "MlpPolicy", spaces.MultiBinary(4), "discrete"),
    "observed-number": Case(PPO, "MlpPolicy", spaces.Box(-1.0, 1.0, ()), "discrete"),
    **{
        f"{name}{'-sampled' * bool(more)}": Case(PPO, policy, VECTOR, actions, arguments, more)
        for more in ({}, SAMPLED)
        for name, policy, actions, arguments in (
            ("gsde", "MlpPolicy", "box", {"use_sde": True}),
            ("gsde-squashed", "MlpPolicy", "box64", SQUASHED),
            ("gsde-lstm", "MlpLstmPolicy", "box", {"use_sde": True, "policy_kwargs": MEMORY}),
        )
    },
    "own-extractors": Case(PPO, "CnnPolicy", IMAGE, "box", {"policy_kwargs": {"share_features_extractor": False}}),
    "phasic": Case(PPG, "MlpPolicy", VECTOR, "box"),
    "phasic-cnn": Case(PPG, "CnnPolicy", IMAGE, "discrete"),
    "decoupled": Case(DAAC, "MlpPolicy", VECTOR, "discrete"),
    "decoupled-dictionary": Case(DAAC, "MultiInputPolicy", NESTED, "hybrid"),
    "trpo": Case(TRPO, "MlpPolicy", VECTOR, "multi_discrete"),
    "a2c": Case(A2C, "MlpPolicy", VECTOR, "box"),
}  # fmt: skip
