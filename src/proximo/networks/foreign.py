"""A policy that is no network of the library, behind the calls that the library makes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from proximo.data import TensorObservation
from proximo.networks.actor_critic import ActorCriticPolicy, BasePolicy
from proximo.networks.distributions import make_proba_distribution


class ForeignPolicy(ActorCriticPolicy):
    """A user's policy as collector, evaluation and files see it.

    Of ``policy`` are asked: spaces, ``optimizers``, ``get_value(obs)``, and ``policy(obs, training)``, which gives
    actions and, when training, ``{"values": …, "log_probs": …}``.
    """

    def __init__(self, policy: Any) -> None:
        BasePolicy.__init__(self, policy.observation_space, policy.action_space)
        self.use_sde, self.share_features_extractor = False, True
        self.action_dist = make_proba_distribution(policy.action_space)
        self.own = policy
        self.optimizer = next(iter(policy.optimizers.values()), None) or torch.optim.SGD(policy.parameters(), lr=0.0)

    def forward(
        self, obs: TensorObservation, deterministic: bool = False, action_masks: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        actions, extra = self.own(obs, training=True)
        if missing := {"values", "log_probs"} - extra.keys():
            raise ValueError(
                f"{type(self.own).__name__}'s forward() must give values and log_probs beside the actions; "
                f"{', '.join(sorted(missing))} missing"
            )
        return actions.reshape((-1, *self.action_shape)), extra["values"].reshape(-1, 1), extra["log_probs"].flatten()

    def predict_values(self, obs: TensorObservation) -> Tensor:
        values: Tensor = self.own.get_value(obs)
        return values

    def _predict(
        self, observation: TensorObservation, deterministic: bool = False, action_masks: Tensor | None = None
    ) -> Tensor:
        actions: Tensor = self.own(observation, training=not deterministic)[0]
        return actions
