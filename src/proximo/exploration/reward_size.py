"""Before the networks of a file's intrinsic reward are built: are they as large as the weights that come with it?"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from proximo.exploration.base import IntrinsicReward
from proximo.functional.spaces import Space


def check_reward_size(
    reward: IntrinsicReward, state: Mapping[str, Any], observation_space: Space, action_space: Space
) -> None:
    """Raise unless a reward that is not bound yet has weights of the shapes that its ``state_dict`` holds.

    A few bytes can describe a network of terabytes. Built on torch's ``meta`` device it has shapes but no memory. A
    class of the caller's own is the caller's business.
    """
    if reward.bound or not type(reward).__module__.startswith(__package__):
        return
    with torch.device("meta"):
        probe = copy.deepcopy(reward).bind(observation_space, action_space, 1, "meta")
    described, held = dict(_networks(probe.state_dict())), dict(_networks(state))
    if {name: tensor.shape for name, tensor in described.items()} != {
        name: tensor.shape for name, tensor in held.items()
    }:
        raise ValueError(
            f"the networks of {type(reward).__name__} that the file describes have {_count(described)} weights, the "
            f"file holds {_count(held)} of them, or others"
        )


def _networks(state: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Weights by name, of a reward and of the parts of a mix."""
    if isinstance(state, Mapping):
        for key, value in state.items():
            if key == "networks":
                yield from ((f"{path}{name}", tensor) for name, tensor in value.items())
            elif key == "rewards":
                for index, part in enumerate(value):
                    yield from _networks(part, f"{path}{index}.")


def _count(networks: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() for tensor in networks.values())
