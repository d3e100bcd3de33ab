"""The base of storages in rllte's shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch

from proximo.functional.spaces import Space
from proximo.networks.actor_critic import get_device
from proximo.rllte.common.preprocessing import process_action_space, process_observation_space


class BaseStorage(ABC):
    """Keeps the samples of ``storage_size`` steps of ``num_envs`` environments."""

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        device: torch.device | str,
        storage_size: int,
        batch_size: int,
        num_envs: int,
    ) -> None:
        for name, size in (("storage_size", storage_size), ("batch_size", batch_size), ("num_envs", num_envs)):
            if size < 1:
                raise ValueError(f"{name} is {size}; expected at least 1")
        self.observation_space, self.action_space = observation_space, action_space
        self.device = get_device(device)
        self.storage_size, self.batch_size, self.num_envs = storage_size, batch_size, num_envs
        self.obs_shape = process_observation_space(observation_space)
        self.action_shape, self.action_dim, self.policy_action_dim, self.action_type = process_action_space(
            action_space
        )

    @abstractmethod
    def reset(self) -> None:
        """Forget what is stored."""

    @abstractmethod
    def add(self, *args: Any, **kwargs: Any) -> None:
        """Store one step of all environments."""

    @abstractmethod
    def sample(self) -> Any:
        """Minibatches."""

    @abstractmethod
    def update(self) -> None:
        """Called after every update of the agent."""
