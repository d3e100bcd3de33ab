"""The base of policies in rllte's shape."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from proximo.data import TensorObservation
from proximo.functional.spaces import Space, describe_action_space, get_obs_shape
from proximo.networks.initialization import get_init_fn
from proximo.networks.optimizers import all_parameters, follow_parameters
from proximo.networks.published_encoders import BaseEncoder


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
        """Arguments:
        observation_space: The space of one observation.
        action_space: The space of one action.
        feature_dim: Width of the features that the encoder gives.
        hidden_dim: Width of the hidden layers.
        opt_class: The optimiser's class.
        opt_kwargs: Its arguments.
        init_fn: How weights start: orthogonal, xavier_uniform, xavier_normal or identity.
        """
        super().__init__()
        for name, size in (("feature_dim", feature_dim), ("hidden_dim", hidden_dim)):
            if size < 1:
                raise ValueError(f"{name} is {size}; expected a positive width")
        self.observation_space, self.action_space = observation_space, action_space
        self.feature_dim, self.hidden_dim = feature_dim, hidden_dim
        self.opt_class, self.opt_kwargs = opt_class, dict(opt_kwargs or {})
        self.init_method, self.init_fn = init_fn, get_init_fn(init_fn)
        self.obs_shape = get_obs_shape(observation_space)
        self.action_shape, self.action_dim, self.policy_action_dim, self.action_type = describe_action_space(
            action_space
        )
        nvec = getattr(action_space, "nvec", None)
        self.nvec = None if nvec is None else tuple(int(number) for number in nvec.reshape(-1))
        self._optimizers: dict[str, torch.optim.Optimizer] = {}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What ``to(device)`` and its like run through; the optimisers follow where they make new parameters."""
        before = all_parameters(self)
        super()._apply(fn, recurse)
        follow_parameters(self.optimizers.values(), before, all_parameters(self))
        return self

    @property
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimisers by name."""
        return self._optimizers

    @classmethod
    def describe(cls) -> None:
        """Print what the policy is made of."""
        print(f"{cls.__name__}\n{inspect.cleandoc(cls.__doc__ or '')}")  # noqa: T201 - what it is for

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Refused: the agent saves."""
        raise NotImplementedError("a policy is saved with its agent: agent.save(path), and agent.load(path) goes on")

    def load(self, *args: Any, **kwargs: Any) -> None:
        """Refused: the agent loads."""
        raise NotImplementedError("a policy is loaded with its agent: agent.load(path) of a file of agent.save(path)")

    @abstractmethod
    def freeze(self, encoder: BaseEncoder, dist: Any) -> None:
        """Take encoder and distribution, start the weights and make the optimisers."""

    @abstractmethod
    def forward(self, obs: TensorObservation, training: bool = True) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions, and what training needs beside them."""

    @abstractmethod
    def get_value(self, obs: TensorObservation) -> Tensor:
        """[batch, 1]"""
