"""The base of policies in rllte's shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from proximo.data import Array, Observation, TensorObservation
from proximo.functional.spaces import Space, obs_as_tensor
from proximo.networks.optimizers import all_parameters, follow_parameters
from proximo.networks.published_encoders import BaseEncoder
from proximo.rllte.common.initialization import get_init_fn
from proximo.rllte.common.preprocessing import process_action_space, process_observation_space


class BasePolicy(nn.Module, ABC):
    """What an agent needs of a policy; encoder and distribution arrive with :meth:`freeze`.

    ``forward(obs, training=True)`` gives sampled actions and ``{"values": [batch, 1], "log_probs": [batch]}``, with
    ``training=False`` the likeliest actions and ``{}``.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        feature_dim: int,
        hidden_dim: int = 512,
        opt_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        opt_kwargs: dict[str, Any] | None = None,
        init_fn: str = "orthogonal",
    ) -> None:
        super().__init__()
        for name, size in (("feature_dim", feature_dim), ("hidden_dim", hidden_dim)):
            if size < 1:
                raise ValueError(f"{name} is {size}; expected a positive width")
        self.observation_space, self.action_space = observation_space, action_space
        self.feature_dim, self.hidden_dim = feature_dim, hidden_dim
        self.opt_class = opt_class
        self.opt_kwargs = dict(opt_kwargs or {})
        self.init_method = init_fn
        self.init_fn = get_init_fn(init_fn)
        self.obs_shape = process_observation_space(observation_space)
        self.action_shape, self.action_dim, self.policy_action_dim, self.action_type = process_action_space(
            action_space
        )
        self._optimizers: dict[str, torch.optim.Optimizer] = {}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What ``to(device)`` and its like run through; the optimisers follow where they make new parameters."""
        before = all_parameters(self)
        super()._apply(fn, recurse)
        follow_parameters(self.optimizers.values(), before, all_parameters(self))
        return self

    @property
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return self._optimizers

    @abstractmethod
    def freeze(self, encoder: BaseEncoder, dist: Any) -> None:
        """Take encoder and distribution, start the weights and make the optimisers."""

    @abstractmethod
    def forward(self, obs: TensorObservation, training: bool = True) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions, and what training needs beside them."""

    @abstractmethod
    def get_value(self, obs: TensorObservation) -> Tensor:
        """[batch, 1]"""

    @property
    def device(self) -> torch.device:
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    @torch.no_grad()
    def predict(
        self, observation: Observation, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Array, Any]:
        """Actions [env, …] that the environment takes, for a batch of observations."""
        actions, _ = self(obs_as_tensor(observation, self.device), training=not deterministic)
        return self.bound_actions(actions.cpu().numpy()), state

    def bound_actions(self, actions: Array) -> Array:
        """Actions as the environment takes them: within its bounds, and counted from its start."""
        shaped = actions.reshape(-1, *self.action_shape)
        match self.action_space:
            case spaces.Box():
                return np.clip(shaped, self.action_space.low, self.action_space.high)
            case spaces.Discrete() | spaces.MultiDiscrete():
                return shaped.astype(np.int64) + self.action_space.start
        return shaped
