"""Models of Stable-Baselines3 and sb3-contrib over their spaces and policies, small enough to train in a moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.utils import LinearSchedule

import proximo

IMAGE = spaces.Box(0, 255, (3, 36, 36), np.uint8)
VECTOR = spaces.Box(-2.0, 2.0, (4,))
MIXED = spaces.Dict({"picture": IMAGE, "vector": VECTOR, "kind": spaces.Discrete(3)})


class RandomEnv(gymnasium.Env[Any, Any]):
    """Any spaces, episodes of seven steps, all actions allowed."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observation_space.sample(), float(np.sum(action)), self.steps == 7, False, {}

    def action_masks(self) -> np.ndarray:
        counts = getattr(self.action_space, "nvec", None)
        size = int(np.sum(counts)) if counts is not None else int(getattr(self.action_space, "n", 1))
        return np.ones(2 * size if isinstance(self.action_space, spaces.MultiBinary) else size, np.bool_)


@dataclass(frozen=True)
class Case:
    name: str
    algorithm: str = "PPO"
    policy: str = "MlpPolicy"
    observations: spaces.Space[Any] = field(default_factory=lambda: VECTOR)
    actions: spaces.Space[Any] = field(default_factory=lambda: spaces.Discrete(3))
    options: dict[str, Any] = field(default_factory=dict)
    custom_objects: dict[str, Any] = field(default_factory=dict)

    @property
    def theirs(self) -> Any:
        return getattr(stable_baselines3, self.algorithm, None) or getattr(sb3_contrib, self.algorithm)

    @property
    def ours(self) -> Any:
        return getattr(proximo, self.algorithm)

    def env(self) -> RandomEnv:
        return RandomEnv(self.observations, self.actions)

    def make(self, cls: Any) -> Any:
        sizes = {} if self.algorithm == "A2C" else {"n_steps": 16, "batch_size": 8}
        if self.algorithm.endswith("PPO"):
            sizes["n_epochs"] = 2
        return cls(self.policy, self.env(), **{**sizes, "seed": 3, "device": "cpu", **self.options}).learn(32)

    def observation(self, rows: int = 20) -> Any:
        self.observations.seed(11)
        samples = [self.observations.sample() for _ in range(rows)]
        if isinstance(self.observations, spaces.Dict):
            return {key: np.stack([sample[key] for sample in samples]) for key in self.observations.spaces}
        return np.stack(samples)


def _network(**options: Any) -> dict[str, Any]:
    return {"policy_kwargs": options}


BOX = spaces.Box(np.array([-1.0, -3.0], np.float32), np.array([1.0, 2.0], np.float32))
SMALL = {"features_extractor_kwargs": {"features_dim": 8}}
CASES = [
    Case("discrete"),
    Case("box", actions=BOX),
    Case("multi-discrete", actions=spaces.MultiDiscrete([2, 3, 2])),
    Case("multi-binary", actions=spaces.MultiBinary(3)),
    Case("discrete observations", observations=spaces.Discrete(5)),
    Case("multi-discrete observations", observations=spaces.MultiDiscrete([3, 4])),
    Case("multi-binary observations", observations=spaces.MultiBinary(4)),
    Case("unbounded observations", observations=spaces.Box(-np.inf, np.inf, (3,)), actions=BOX),
    Case("images", policy="CnnPolicy", observations=IMAGE, options=_network(**SMALL)),
    Case("dictionary", policy="MultiInputPolicy", observations=MIXED, actions=BOX),
    Case("layers", options=_network(net_arch={"pi": [16, 8], "vf": [12]}, activation_fn=torch.nn.ELU)),
    Case("list of layers", options=_network(net_arch=[16], activation_fn=torch.nn.ReLU, ortho_init=False)),
    Case(
        "two extractors",
        policy="CnnPolicy",
        observations=IMAGE,
        options=_network(share_features_extractor=False, **SMALL),
    ),
    Case("state-dependent noise", actions=BOX, options={"use_sde": True, "sde_sample_freq": 4}),
    Case(
        "squashed noise",
        actions=BOX,
        options={"use_sde": True, **_network(squash_output=True, log_std_init=-1.0, full_std=False)},
    ),
    Case(
        "schedules",
        options={"learning_rate": LinearSchedule(1e-3, 1e-4, 0.5), "clip_range": LinearSchedule(0.2, 0.1, 1.0)},
    ),
    Case(
        "function as learning rate",
        options={"learning_rate": lambda progress: 1e-3 * progress},
        custom_objects={"learning_rate": 5e-4},
    ),
    Case("Adam's arguments", options=_network(optimizer_kwargs={"eps": 1e-7, "betas": (0.8, 0.99)})),
    Case("AdamW", options=_network(optimizer_class=torch.optim.AdamW, optimizer_kwargs={"weight_decay": 0.01})),
    Case("value clipping", options={"clip_range_vf": 0.3, "target_kl": 0.5, "normalize_advantage": False}),
    Case("A2C", algorithm="A2C", actions=BOX),
    Case("A2C with Adam", algorithm="A2C", options={"use_rms_prop": False}),
    Case(
        "A2C as in TensorFlow",
        algorithm="A2C",
        options=_network(optimizer_class=RMSpropTFLike, optimizer_kwargs={"eps": 1e-5, "alpha": 0.95}),
    ),
    Case("A2C on images", algorithm="A2C", policy="CnnPolicy", observations=IMAGE, options=_network(**SMALL)),
    Case("TRPO", algorithm="TRPO", actions=BOX),
    Case("memory", algorithm="RecurrentPPO", policy="MlpLstmPolicy", options=_network(lstm_hidden_size=8)),
    Case(
        "memory, shared",
        algorithm="RecurrentPPO",
        policy="MlpLstmPolicy",
        actions=BOX,
        options=_network(lstm_hidden_size=8, n_lstm_layers=2, shared_lstm=True, enable_critic_lstm=False),
    ),
    Case(
        "memory, value without",
        algorithm="RecurrentPPO",
        policy="MlpLstmPolicy",
        options=_network(lstm_hidden_size=8, enable_critic_lstm=False),
    ),
    Case(
        "memory of images",
        algorithm="RecurrentPPO",
        policy="CnnLstmPolicy",
        observations=IMAGE,
        options=_network(lstm_hidden_size=8, **SMALL),
    ),
    Case(
        "memory of a dictionary",
        algorithm="RecurrentPPO",
        policy="MultiInputLstmPolicy",
        observations=MIXED,
        options=_network(lstm_hidden_size=8),
    ),
    Case("masks", algorithm="MaskablePPO"),
    Case("masks of several", algorithm="MaskablePPO", actions=spaces.MultiDiscrete([2, 3])),
    Case("masks of switches", algorithm="MaskablePPO", actions=spaces.MultiBinary(3)),
    Case("masks on a dictionary", algorithm="MaskablePPO", policy="MultiInputPolicy", observations=MIXED),
]
BY_NAME = {case.name: case for case in CASES}
# the quick tests keep one of each kind
SLOW = {
    "two extractors",
    "A2C on images",
    "A2C with Adam",
    "memory of images",
    "memory of a dictionary",
    "masks of several",
}
SLOW |= {"multi-binary observations", "multi-discrete observations", "memory, shared", "masks on a dictionary"}
