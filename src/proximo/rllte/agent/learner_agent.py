"""What the agents of this library share: rllte's default modules, and the library's PPO learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from gymnasium import spaces

from proximo.config import PPOConfig, UpdateSettings
from proximo.data import Metrics
from proximo.functional.spaces import get_flattened_obs_dim
from proximo.learners.ppo import PPOLearner
from proximo.networks.published_encoders import (
    BaseEncoder,
    IdentityEncoder,
    MnihCnnEncoder,
    PathakCnnEncoder,
    RaffinCombinedEncoder,
)
from proximo.rllte.common.prototype.on_policy_agent import OnPolicyAgent
from proximo.rllte.xploit.policy import OnPolicySharedActorCritic
from proximo.rllte.xploit.policy.actor_critic import NetworkPolicy
from proximo.rllte.xploit.policy.base import BasePolicy
from proximo.rllte.xploit.storage import DictRolloutStorage, VanillaRolloutStorage

BASE_ARGUMENTS = ("env", "eval_env", "tag", "seed", "device", "pretraining", "num_steps")

OTHER_NAMES = {
    "learning_rate": "lr",
    "n_steps": "num_steps",
    "gamma": "discount",
    "rollouts_per_phase": "policy_epochs",
}
"""Hyperparameters that rllte and Hsuanwu call otherwise."""

Config = TypeVar("Config", bound=PPOConfig)


def configuration(arguments: Mapping[str, Any], config_class: type[Config], **others: Any) -> Config:
    """The configuration that arguments by rllte's names say; those that it does not have are ignored."""
    names = {name: OTHER_NAMES.get(name, name) for name in config_class.names()}
    given = {name: arguments[theirs] for name, theirs in names.items() if theirs in arguments}
    # the storage normalises advantages, over the whole rollout
    return config_class(**given, **others, normalize_advantage=False)


class LearnerAgent(OnPolicyAgent):
    """An agent whose update is one of the library's learners.

    Observations of one dimension go to two Tanh layers of ``hidden_dim`` per head as they are; images through
    MnihCnnEncoder, Dict observations through RaffinCombinedEncoder, to ``feature_dim`` features and linear heads.
    """

    policy: NetworkPolicy
    storage: VanillaRolloutStorage

    def __init__(
        self, arguments: Mapping[str, Any], config_class: type[PPOConfig] = PPOConfig, aux_critic: bool = False
    ) -> None:
        """``arguments`` are the ``locals()`` of an agent's constructor."""
        config = configuration(arguments, config_class)
        super().__init__(**{name: arguments[name] for name in BASE_ARGUMENTS})
        config.check_environments(self.num_envs)
        self._config = config
        self.feature_dim = feature_dim = arguments["feature_dim"]
        self.lr, self.eps, self.discount = float(config.learning_rate), arguments["eps"], config.gamma  # type: ignore[arg-type]
        self.vf_coef, self.ent_coef, self.max_grad_norm = config.vf_coef, config.ent_coef, config.max_grad_norm
        encoder = self._default_encoder(feature_dim)
        policy = OnPolicySharedActorCritic(
            self.observation_space,
            self.action_space,
            encoder.feature_dim,
            arguments["hidden_dim"],
            opt_class=torch.optim.Adam,
            opt_kwargs={"lr": self.lr, "eps": self.eps},
            aux_critic=aux_critic,
            init_fn=arguments["init_fn"],
        )
        kind = DictRolloutStorage if isinstance(self.observation_space, spaces.Dict) else VanillaRolloutStorage
        storage = kind(
            self.observation_space,
            self.action_space,
            self.device,
            storage_size=self.num_steps,
            batch_size=config.batch_size,
            num_envs=self.num_envs,
            discount=config.gamma,
        )
        self.set(encoder=encoder, policy=policy, storage=storage)

    def _default_encoder(self, feature_dim: int) -> BaseEncoder:
        space = self.observation_space
        if isinstance(space, spaces.Dict):
            return RaffinCombinedEncoder(space, feature_dim)
        if space.shape is not None and len(space.shape) == 3:
            # a grid, say, with a few pixels for each field
            small = min(space.shape[1:]) < MnihCnnEncoder.smallest_image
            return PathakCnnEncoder(space, feature_dim) if small else MnihCnnEncoder(space, feature_dim)
        return IdentityEncoder(space, get_flattened_obs_dim(space))

    def _check_policy(self, policy: BasePolicy) -> None:
        super()._check_policy(policy)
        if not isinstance(policy, NetworkPolicy):
            raise TypeError(
                f"{type(self).__name__} trains policies of proximo.rllte.xploit.policy, got {type(policy).__name__}; "
                "for a policy of your own, subclass OnPolicyAgent and write update()"
            )

    def _settings(self, **special: Any) -> UpdateSettings:
        """The hyperparameters of this moment; rllte halves the squared error and counts the larger clipped one."""
        self._require_rollout()
        return UpdateSettings(
            learning_rate=self.policy.network.optimizer.param_groups[0]["lr"],
            batch_size=self.storage.batch_size,
            normalize_advantage=False,  # the storage has done it, over the whole rollout
            pessimistic_value=True,
            ent_coef=self.ent_coef,
            vf_coef=0.5 * self.vf_coef,
            max_grad_norm=self.max_grad_norm,
            target_kl=None,
            **special,
        )

    def _update(self, settings: UpdateSettings) -> Metrics:
        return rllte_metrics(PPOLearner(self.runtime).update(self._batches(), settings))


def rllte_metrics(metrics: Metrics) -> Metrics:
    """The library's metrics under rllte's names: half the squared error, and the entropy itself as entropy loss.

    >>> rllte_metrics({"policy_gradient_loss": 1.0, "value_loss": 3.0, "entropy_loss": -0.5})
    {'train/policy_loss': 1.0, 'train/value_loss': 1.5, 'train/entropy_loss': 0.5}
    """
    named = {
        "train/policy_loss": metrics["policy_gradient_loss"],
        "train/value_loss": 0.5 * metrics["value_loss"],
        "train/entropy_loss": -metrics["entropy_loss"],
    }
    others = {"approx_kl", "clip_fraction", "explained_variance", "learning_rate", "aux_value_loss", "kl_loss"}
    return named | {f"train/{name}": value for name, value in metrics.items() if name in others}
