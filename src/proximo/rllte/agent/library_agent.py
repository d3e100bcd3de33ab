"""What the agents of this library share: rllte's default modules, and the library's learners."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from gymnasium import spaces

from proximo.augmentation import usual_augmentation
from proximo.config import OnPolicyConfig, PPOConfig, UpdateSettings
from proximo.data import Metrics
from proximo.networks.published_encoders import usual_encoder
from proximo.rllte.common.prototype.base_policy import BasePolicy
from proximo.rllte.common.prototype.on_policy_agent import OnPolicyAgent
from proximo.rllte.xploit.policy import OnPolicySharedActorCritic
from proximo.rllte.xploit.policy.network_policy import NetworkPolicy
from proximo.rollout.tensor_storage import DictRolloutStorage, VanillaRolloutStorage

MEANINGS = {
    "env": "Vectorised environments for training.",
    "eval_env": "Vectorised environments for evaluation.",
    "tag": "An experiment tag; files go to logs/{tag}/{time}.",
    "seed": "Random seed for reproduction.",
    "device": "Device (cpu, cuda, …) on which the code runs.",
    "pretraining": "Turn on the pre-training mode: the environment's rewards are 0, an intrinsic reward is needed.",
    "num_steps": "The sample length per rollout and environment.",
    "feature_dim": "Number of features extracted by the encoder; vectors are their own features.",
    "batch_size": "Number of samples per batch.",
    "lr": "The learning rate.",
    "eps": "Term added to Adam's denominator for numerical stability.",
    "hidden_dim": "The size of the hidden layers, of which vectors get two per head.",
    "clip_range": "Clipping parameter ε: how far the probability ratio may leave 1.",
    "clip_range_vf": "Clipping parameter for the value function; None does not clip.",
    "n_epochs": "Times of updating the policy with each rollout.",
    "vf_coef": "Weighting coefficient of the value loss.",
    "ent_coef": "Weighting coefficient of the entropy bonus.",
    "aug_coef": "Weighting coefficient of the augmentation loss.",
    "adv_coef": "Weighting coefficient of the advantage loss.",
    "max_grad_norm": "Maximum norm of gradients.",
    "value_freq": "Update frequency of the value network: every so many rollouts.",
    "value_epochs": "Times of updating the value network with a rollout.",
    "policy_epochs": "Number of iterations, which are rollouts, in the policy phase.",
    "aux_epochs": "Number of iterations in the auxiliary phase: passes over all rollouts of the phase.",
    "kl_coef": "Weighting coefficient of the divergence loss.",
    "num_aux_mini_batch": "Number of mini-batches in the auxiliary phase.",
    "num_aux_grad_accum": "Number of gradient accumulations for an update in the auxiliary phase.",
    "discount": "Discount factor.",
    "init_fn": "Parameters initialization method: orthogonal, xavier_uniform, xavier_normal or identity.",
}
BASE_ARGUMENTS = ("env", "eval_env", "tag", "seed", "device", "pretraining", "num_steps")


class LibraryAgent(OnPolicyAgent):
    """An agent whose update is one of the library's learners.

    Observations of one dimension go to two Tanh layers of ``hidden_dim`` per head as they are; images through
    MnihCnnEncoder, Dict observations through RaffinCombinedEncoder, to ``feature_dim`` features and linear heads.
    """

    config_class: ClassVar[type[PPOConfig]] = PPOConfig
    # hyperparameters of the library that the agent calls otherwise; its attributes may change while training
    other_names: ClassVar[Mapping[str, str]] = {}
    policy_type: ClassVar[type[NetworkPolicy]] = OnPolicySharedActorCritic
    policy_options: ClassVar[Mapping[str, Any]] = {}
    meanings: ClassVar[Mapping[str, str]] = {}  # where an agent gives an argument another meaning

    policy: NetworkPolicy
    storage: VanillaRolloutStorage

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls) and cls.__module__.startswith("proximo."):
            lines = []
            for name, parameter in list(inspect.signature(cls.__init__).parameters.items())[1:]:
                default = "" if parameter.default is parameter.empty else f" (default {parameter.default!r})"
                lines.append(f"    {name}{default}: {(MEANINGS | dict(cls.meanings))[name]}")
            text = "\n".join(textwrap.fill(line, 118, subsequent_indent=" " * 8) for line in lines)
            cls.__doc__ = f"{cls.__doc__ or ''}\n    Args:\n\n{textwrap.indent(text, '    ')}\n    "

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """``arguments`` are the ``locals()`` of an agent's constructor."""
        super().__init__(**{name: arguments[name] for name in BASE_ARGUMENTS})
        kept = set(arguments) - {*BASE_ARGUMENTS, "batch_size", "discount", "self", "__class__"}
        for name in sorted(kept):
            setattr(self, name, arguments[name])
        encoder = usual_encoder(self.observation_space, arguments["feature_dim"])
        policy = self.policy_type(
            self.observation_space,
            self.action_space,
            encoder.feature_dim,
            arguments["hidden_dim"],
            opt_class=torch.optim.Adam,
            opt_kwargs={"lr": arguments["lr"], "eps": arguments["eps"]},
            init_fn=arguments["init_fn"],
            **self.policy_options,
        )
        kind = DictRolloutStorage if isinstance(self.observation_space, spaces.Dict) else VanillaRolloutStorage
        self.storage = kind(
            self.observation_space,
            self.action_space,
            self.device,
            storage_size=self.num_steps,
            batch_size=arguments["batch_size"],
            num_envs=self.num_envs,
            discount=arguments["discount"],
        )
        self._config().check_environments(self.num_envs)
        self.set(encoder=encoder, policy=policy, augmentation=self._default_augmentation())

    def _default_augmentation(self) -> Any:
        return None

    def _check_policy(self, policy: BasePolicy) -> None:
        super()._check_policy(policy)
        if not isinstance(policy, NetworkPolicy):
            raise TypeError(
                f"{type(self).__name__} trains policies of proximo.rllte.xploit.policy, got {type(policy).__name__}; "
                "for a policy of your own, subclass OnPolicyAgent and write update()"
            )

    def optimizers(self) -> Mapping[str, torch.optim.Optimizer]:
        return {}  # the learner knows its own

    @property
    def learner(self) -> Any:
        """The library's learner that updates the network."""
        self.freeze()
        return self.model.learner

    def _config(self) -> OnPolicyConfig:
        """The library's configuration of this moment."""
        renamed = {"learning_rate": "lr", **self.other_names}
        names = {name: renamed.get(name, name) for name in self.config_class.names()}
        own = {name: getattr(self, theirs) for name, theirs in names.items() if hasattr(self, theirs)}
        return self.config_class(**{**own, **self._rollout_settings()})

    def _settings(self, **special: Any) -> UpdateSettings:
        """The hyperparameters of this moment; rllte halves the squared error and counts the larger clipped one."""
        if not self._frozen or not self.storage.full:
            raise ValueError(
                f"{type(self).__name__}.update() trains on a full storage; call train(), or freeze() and "
                f"{self.num_steps} times storage.add() first"
            )
        for name, value in self._config().as_dict().items():
            setattr(self.model, name, value)
        settings: UpdateSettings = self.model._settings()  # type: ignore[attr-defined]
        rate = next(iter(self.policy.optimizers.values())).param_groups[0]["lr"]
        return settings.changed(learning_rate=rate, pessimistic_value=True, vf_coef=0.5 * settings.vf_coef, **special)

    def _set_learning_rates(self) -> None:
        for rates in self._initial_rates.values():
            rates[:] = [self.lr] * len(rates)  # type: ignore[attr-defined]
        super()._set_learning_rates()

    def update(self) -> Metrics:
        """Train on the storage's rollout; returns ``train/policy_loss``, ``…value_loss``, ``…entropy_loss``."""
        return rllte_metrics(self.learner.update(self.storage.buffer, self._settings()))


class AugmentedAgent(LibraryAgent):
    """An agent whose observations are augmented unless it is told otherwise."""

    def _default_augmentation(self) -> Any:
        return None if isinstance(self.observation_space, spaces.Dict) else usual_augmentation(self.observation_space)

    def check(self) -> None:
        super().check()
        if self.aug is None:
            raise ValueError(f"{type(self).__name__} needs an augmentation of each key: call set(augmentation={{…}})")


NAMES = {"policy_gradient_loss": "policy_loss", "advantage_loss": "adv_loss"}
OTHERS = {
    "aug_policy_loss",
    "aug_value_loss",
    "approx_kl",
    "clip_fraction",
    "explained_variance",
    "learning_rate",
    "aux_value_loss",
    "kl_loss",
}


def rllte_metrics(metrics: Metrics) -> Metrics:
    """The library's metrics under rllte's names: half the squared error, and the entropy itself as entropy loss.

    >>> rllte_metrics({"policy_gradient_loss": 1.0, "value_loss": 3.0, "entropy_loss": -0.5})
    {'train/policy_loss': 1.0, 'train/value_loss': 1.5, 'train/entropy_loss': 0.5}
    """
    factors = {"value_loss": 0.5, "entropy_loss": -1.0}
    kept = {name: value for name, value in metrics.items() if name in OTHERS or name in NAMES or name in factors}
    named = {f"train/{NAMES.get(name, name)}": factors.get(name, 1.0) * value for name, value in kept.items()}
    if "aug_policy_loss" in metrics and "aug_value_loss" in metrics:
        named["train/aug_loss"] = metrics["aug_policy_loss"] + 0.5 * metrics["aug_value_loss"]
    return named
