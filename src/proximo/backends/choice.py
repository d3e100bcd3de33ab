"""Which backend runs a policy."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from proximo.backends.fused import FusedBackend, fused_obstacle
from proximo.backends.torch_backend import TorchBackend
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.flat_parameters import FlatParameters

BackendChoice: TypeAlias = Literal["auto", "fused", "torch"]


def make_backend(
    policy: ActorCriticPolicy,
    flat: FlatParameters,
    generator: np.random.Generator,
    choice: BackendChoice = "auto",
    obstacle: str | None = None,
    sde_sample_freq: int = -1,
) -> FusedBackend | TorchBackend:
    """The fastest backend that can run a policy, or the one asked for; ``obstacle`` is the caller's to fusing."""
    if choice not in ("auto", "fused", "torch"):
        raise ValueError(f"backend is {choice!r}; expected 'auto', 'fused' or 'torch'")
    if choice == "torch":
        return TorchBackend(policy, flat, "asked for", sde_sample_freq)
    obstacle = obstacle or fused_obstacle(policy)
    if obstacle is None:
        return FusedBackend(policy, flat, generator, sde_sample_freq=sde_sample_freq)
    if choice == "fused":
        raise ValueError(f"the fused backend cannot run this policy: {obstacle}; use backend='auto' or 'torch'")
    return TorchBackend(policy, flat, obstacle, sde_sample_freq)
