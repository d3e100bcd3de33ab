"""What Hsuanwu's learners share: the network, its parts under Hsuanwu's names, and the library's learner behind it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from proximo.agents.arguments import MODULAR_ARGUMENTS
from proximo.agents.standalone import StandaloneLearner
from proximo.config import PPOConfig, describe_constructor
from proximo.data import Metrics
from proximo.exploration import IntrinsicReward
from proximo.functional.schedules import ConstantSchedule
from proximo.functional.spaces import Space
from proximo.hsuanwu.described_spaces import describe_action_space, to_action_space, to_observation_space
from proximo.hsuanwu.xploit.encoder import EspeholtResidualEncoder, VanillaMlpEncoder
from proximo.hsuanwu.xploit.learner.actor_critic import ActorCritic
from proximo.hsuanwu.xploit.storage import VanillaRolloutStorage
from proximo.hsuanwu.xplore import distribution as distributions
from proximo.networks.actor_critic import ActorCriticPolicy, get_device
from proximo.networks.given import describe_encoder
from proximo.networks.published_encoders import output_width
from proximo.networks.trunk import TrunkEncoder

DISTRIBUTIONS: dict[type[Any], type[Any]] = {
    spaces.Discrete: distributions.Categorical,
    spaces.Box: distributions.DiagonalGaussian,
    spaces.MultiBinary: distributions.Bernoulli,
}
SHAPES = ("observation_space", "action_space", "device", "feature_dim", "hidden_dim")  # which make the network


class BaseLearner(StandaloneLearner):
    """A learner: arguments are attributes, those that do not make the network may change while training.

    It can be used as soon as it is made: images go through EspeholtResidualEncoder, other observations through
    VanillaMlpEncoder, until another encoder is assigned to ``encoder``. An augmentation assigned to ``aug`` adds DrAC's
    terms; ``irs`` is an intrinsic reward, which the trainer adds before the advantages are estimated.
    """

    config_class: ClassVar[type[PPOConfig]] = PPOConfig
    policy_class: ClassVar[type[ActorCriticPolicy]] = ActorCriticPolicy
    # the library's hyperparameters that Hsuanwu calls otherwise
    other_names: ClassVar[Mapping[str, str]] = {"learning_rate": "lr"}
    num_mini_batch_name: ClassVar[str] = "num_mini_batch"

    observation_space: Any
    action_space: Any
    device: Any
    feature_dim: int
    hidden_dim: int
    lr: float
    eps: float
    clip_range: float
    vf_coef: float

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls) and cls.__module__.startswith("proximo."):
            cls.__doc__ = (cls.__doc__ or "") + describe_constructor(cls, MODULAR_ARGUMENTS)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """``arguments`` are the ``locals()`` of a learner's constructor.

        Arguments:
            arguments: The locals() of a learner's constructor.
        """
        given = {name: value for name, value in arguments.items() if name not in ("self", "__class__")}
        given["observation_space"] = to_observation_space(given["observation_space"])
        given["action_space"] = to_action_space(given["action_space"])
        given["device"] = get_device(given["device"])
        vars(self).update(given)
        for name in ("feature_dim", "hidden_dim", self.num_mini_batch_name, "policy_epochs"):
            count = given.get(name, 1)
            if not isinstance(count, int | np.integer) or count < 1:
                raise ValueError(f"{name} is {count!r}; expected a positive whole number")
        if not self.eps > 0:
            raise ValueError(f"eps is {self.eps}; expected a positive number")
        self.configuration(256)  # raises for a hyperparameter out of range
        super().__init__(self._make_network())
        self.ac = self._make_actor_critic()
        self._dist: Any = None
        self.irs: IntrinsicReward | None = None
        self._made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in SHAPES and hasattr(self, "_made"):
            raise AttributeError(f"{name} is built into the network; make a new {type(self).__name__} with {name}=…")
        super().__setattr__(name, value)

    def _make_network(self) -> ActorCriticPolicy:
        space, kind, options = self.observation_space, EspeholtResidualEncoder, {}
        if len(space.shape) != 3:
            kind, options = VanillaMlpEncoder, {"hidden_dim": self.hidden_dim}  # type: ignore[assignment]
        self.policy_kwargs: dict[str, Any] = {
            "net_arch": [],
            "optimizer_kwargs": {"eps": self.eps},
            "features_extractor_class": TrunkEncoder,
            "features_extractor_kwargs": {
                "encoder_class": kind,
                "feature_dim": self.feature_dim,
                "hidden_dim": self.hidden_dim,
                "encoder_kwargs": options,
            },
        }
        network = self.policy_class(space, self.action_space, ConstantSchedule(self.lr), **self.policy_kwargs)
        encoder: Any = network.features_extractor.encoder
        encoder.apply(partial(network.init_weights, gain=encoder.init_gain))
        return network.to(self.device)

    def _make_actor_critic(self) -> ActorCritic:
        return ActorCritic(self.network)

    # -- what Hsuanwu's trainer puts in place

    @property
    def encoder(self) -> nn.Module:
        """What turns observations into features; another one may be assigned."""
        found: nn.Module = self.network.features_extractor.encoder
        return found

    @encoder.setter
    def encoder(self, encoder: nn.Module) -> None:
        """Take another encoder with the weights it has; trunk and heads stay, the optimiser's memory begins again."""
        if not isinstance(encoder, nn.Module):
            raise TypeError(f"encoder is {encoder!r:.80}; expected a torch module that gives [batch, feature_dim]")
        encoder = encoder.to(self.device)
        width = output_width(encoder, self.observation_space)
        if width != self.feature_dim:
            raise ValueError(
                f"{type(encoder).__name__} gives {width} features, the learner was made with feature_dim "
                f"{self.feature_dim}; make both with the same feature_dim"
            )
        self.network.features_extractor.encoder = encoder
        described = describe_encoder(encoder)
        kwargs = dict(described.get("features_extractor_kwargs", {}))
        kwargs.pop("feature_dim", None)
        self.policy_kwargs["features_extractor_kwargs"] |= {
            "encoder_class": described["features_extractor_class"],
            "encoder_kwargs": kwargs,
        }
        options: dict[str, Any] = {"lr": self.lr, **self.network.optimizer_kwargs}
        self.network.optimizer = self.network.optimizer_class(self.network.parameters(), **options)

    @property
    def ac_opt(self) -> torch.optim.Optimizer:
        """The optimiser of the whole network, encoder included."""
        found: torch.optim.Optimizer = self.network.optimizer
        return found

    @property
    def encoder_opt(self) -> torch.optim.Optimizer:
        """The one Adam, under the name of the encoder's."""
        return self.ac_opt

    @encoder_opt.setter
    def encoder_opt(self, optimizer: torch.optim.Optimizer) -> None:
        """Accepted where it changes nothing: one Adam for all parameters is as good as one for each part."""
        groups = [(group.get("lr"), group.get("eps")) for group in optimizer.param_groups]
        if type(optimizer) is not torch.optim.Adam or set(groups) != {(self.lr, self.eps)}:
            raise ValueError(
                f"encoder_opt is {type(optimizer).__name__} with (lr, eps) {groups}; the encoder is trained by the "
                f"learner's own Adam with lr {self.lr} and eps {self.eps}: pass those to {type(self).__name__}"
            )

    @property
    def dist(self) -> Any:
        """The distribution of actions; another one may be assigned."""
        return self._dist

    @dist.setter
    def dist(self, dist: Any) -> None:
        """Accepted where it is the distribution that the actions have anyway."""
        fitting = DISTRIBUTIONS[type(self.action_space)]
        if (dist if isinstance(dist, type) else type(dist)) is not fitting:
            raise ValueError(
                f"dist is {dist!r:.80}; {type(self).__name__} draws actions of {self.action_space} from "
                f"{fitting.__name__}"
            )
        self._dist = dist

    aug = StandaloneLearner.augmentation

    # -- use

    def update(self, rollout_storage: VanillaRolloutStorage, episode: int = 0) -> Metrics:
        """Train on one rollout with its advantages; returns ``actor_loss``, ``critic_loss``, ``entropy``, …"""
        config = self._checked_configuration(rollout_storage)
        return hsuanwu_metrics(self._update(rollout_storage, config, episode), config.aug_coef)

    def _update(self, storage: VanillaRolloutStorage, config: PPOConfig, episode: int) -> Metrics:
        # Hsuanwu halves the squared error
        return self.update_from(storage.buffer, config, vf_coef=0.5 * self.vf_coef)

    def configuration(self, steps: int, environments: int = 1) -> PPOConfig:
        """The library's configuration of this moment, for rollouts of so many steps."""
        names = {name: self.other_names.get(name, name) for name in self.config_class.names()}
        own = {name: getattr(self, theirs) for name, theirs in names.items() if hasattr(self, theirs)}
        samples, pieces = steps * environments, getattr(self, self.num_mini_batch_name)
        return self.config_class(**own | {
            "n_steps": steps, "batch_size": max(1, samples // pieces), "clip_range_vf": self.clip_range,
            "normalize_advantage": False,  # the storage has done it, over the whole rollout
        })  # fmt: skip

    def _checked_configuration(self, storage: VanillaRolloutStorage) -> PPOConfig:
        self.check_storage(storage)
        if not storage.estimated:
            raise ValueError(
                f"the storage holds {storage.step} of {storage.num_steps} steps without advantages; fill it and call "
                "compute_returns_and_advantages(last_values) before update()"
            )
        for group in self.network.optimizer.param_groups:
            group["eps"] = self.eps
        return self.configuration(storage.num_steps, storage.num_envs)

    def check_storage(self, storage: VanillaRolloutStorage) -> None:
        """Raise when a storage's rollouts are not what this learner can train on."""
        if not isinstance(storage, VanillaRolloutStorage):
            raise TypeError(
                f"rollout_storage is {type(storage).__name__}; expected proximo.hsuanwu.xploit.storage."
                "VanillaRolloutStorage"
            )
        if storage.obs_shape != self.observation_space.shape:
            raise ValueError(
                f"the storage keeps observations of shape {storage.obs_shape}, the learner reads "
                f"{self.observation_space.shape}; make it with obs_shape={self.observation_space.shape}"
            )
        kept, own = _actions(storage.action_space), _actions(self.action_space)
        if kept != own:
            raise ValueError(
                f"the storage keeps {kept[0]} actions of {kept[1]}, the learner acts with {own[0]} of {own[1]}; make "
                f"it with action_shape={own[1]} and action_type={own[0]!r}"
            )
        storage.minibatch_size(getattr(self, self.num_mini_batch_name), self.num_mini_batch_name)
        self.configuration(storage.num_steps, storage.num_envs).check_environments(storage.num_envs)


NAMES = {
    "actor_loss": ("policy_gradient_loss", 1.0),
    "critic_loss": ("value_loss", 0.5),
    "entropy": ("entropy_loss", -1.0),
    "aux_value_loss": ("aux_value_loss", 1.0),
    "kl_loss": ("kl_loss", 1.0),
    "aug_policy_loss": ("aug_policy_loss", 1.0),
    "aug_value_loss": ("aug_value_loss", 1.0),
}


def hsuanwu_metrics(metrics: Metrics, aug_coef: float = 0.1) -> Metrics:
    """The library's metrics under Hsuanwu's names: half the squared error, and the entropy with its own sign.

    ``aug_loss`` is what an augmentation adds to the loss.

    >>> hsuanwu_metrics({"policy_gradient_loss": 1.0, "value_loss": 3.0, "entropy_loss": -0.5, "kl_loss": 0.1})
    {'actor_loss': 1.0, 'critic_loss': 1.5, 'entropy': 0.5, 'kl_loss': 0.1}
    """
    named = {name: factor * metrics[own] for name, (own, factor) in NAMES.items() if own in metrics}
    if "aug_policy_loss" in named:
        named["aug_loss"] = aug_coef * (named.pop("aug_policy_loss") + named.pop("aug_value_loss"))
    return named


def _actions(space: Space) -> tuple[str, tuple[int, ...]]:
    described = describe_action_space(space)
    return described["type"], described["shape"]
