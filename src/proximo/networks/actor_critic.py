"""The policy: a network with an action distribution and a value.

Observation → features extractor → ``mlp_extractor`` → latents → ``action_net`` and ``value_net``. Parameter names equal
those of Stable-Baselines3, so weights move between the two libraries by ``load_state_dict``.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from proximo.config import describe_constructor
from proximo.data import Array, Observation, Schedule, TensorObservation, observation_parts
from proximo.errors import ArgumentValueError, ModelFileError
from proximo.files.archive import read_archive, write_archive
from proximo.files.budgets import Budgets
from proximo.files.encoding import register_class
from proximo.files.fields import decode_fields, encode_fields
from proximo.files.plain_text import brief, printable
from proximo.functional.actions import check_masks, first_action, fit_to_box, restore_structure
from proximo.functional.spaces import (
    Space,
    batch_observation,
    flatten_given,
    get_action_dim,
    obs_as_tensor,
    preprocess_obs,
)
from proximo.networks.arguments import POLICY_ARGUMENTS
from proximo.networks.distributions import (
    DiagGaussianDistribution,
    Distribution,
    HybridDistribution,
    StateDependentNoiseDistribution,
    make_proba_distribution,
)
from proximo.networks.encoders import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    ImageCNN,
    ImpalaCNN,
    MinAtarCNN,
    MlpExtractor,
    NatureCNN,
    NetArch,
)
from proximo.networks.network_size import UNBUILDABLE, check_network_size
from proximo.networks.observation_keys import checked_keys, seen_part, seen_space
from proximo.networks.optimizers import RMSpropTFLike, all_parameters, follow_parameters
from proximo.other_libraries import stands_for

RecurrentState = tuple[Array, ...]
WITH_DEVIATION = (DiagGaussianDistribution, HybridDistribution, StateDependentNoiseDistribution)


def get_device(device: torch.device | str = "auto") -> torch.device:
    """``"auto"`` is the accelerator that PyTorch finds, else the CPU; asking for a missing CUDA falls back to the CPU.

    Apple's MPS must be asked for by its name: it knows no float64, in which intrinsic rewards measure distances.
    """
    if device == "auto":
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        return torch.device("cpu") if accelerator is None or accelerator.type == "mps" else accelerator
    wanted = torch.device(device)
    if wanted.type == "cuda" and not torch.cuda.is_available():
        return torch.device("cpu")
    return wanted


class BasePolicy(nn.Module, ABC):
    """What every policy shares: spaces, observations as tensors, ``predict``, files."""

    features_extractor: BaseFeaturesExtractor
    optimizer: torch.optim.Optimizer

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("proximo.networks."):
            cls.__doc__ = (cls.__doc__ or "") + describe_constructor(cls, POLICY_ARGUMENTS)

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        squash_output: bool = False,
    ) -> None:
        super().__init__()
        self.observation_space = observation_space
        self.action_space = action_space
        self.features_extractor_class = features_extractor_class
        self.features_extractor_kwargs = dict(features_extractor_kwargs or {})
        self.normalize_images = normalize_images
        self.optimizer_class = optimizer_class
        self.optimizer_kwargs = dict(optimizer_kwargs or {})
        self._squash_output = squash_output
        if not normalize_images and issubclass(features_extractor_class, (ImageCNN, CombinedExtractor)):
            self.features_extractor_kwargs.setdefault("normalized_image", True)

    @property
    def squash_output(self) -> bool:
        """Whether actions go through tanh."""
        return self._squash_output

    @property
    def device(self) -> torch.device:
        """The device of the first parameter (for a policy without any, where torch makes new ones)."""
        for parameter in self.parameters():
            return parameter.device
        return torch.get_default_device()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What ``to(device)`` and its like run through; the optimiser follows where they make new parameters."""
        before = all_parameters(self)
        super()._apply(fn, recurse)
        if hasattr(self, "optimizer"):
            follow_parameters([self.optimizer], before, all_parameters(self))
        return self

    def make_features_extractor(self) -> BaseFeaturesExtractor:
        """A new features extractor of the policy's class."""
        return self.features_extractor_class(self.observation_space, **self.features_extractor_kwargs)

    def _seen_by(self, features_extractor: nn.Module, obs: TensorObservation) -> TensorObservation:
        """The part of the observations that an extractor reads."""
        return obs

    def extract_features(self, obs: TensorObservation, features_extractor: BaseFeaturesExtractor) -> Any:
        """The features of observations, which are preprocessed first."""
        obs = self._seen_by(features_extractor, obs)
        # images to be normalised are of bytes, or their encoder would not have been built
        if (
            self.normalize_images
            and isinstance(features_extractor, ImageCNN)
            and isinstance(obs, Tensor)
            and features_extractor.reads_bytes()
        ):
            return features_extractor.forward_bytes(obs)
        divide = self.normalize_images and not getattr(features_extractor, "divides_images", False)
        return features_extractor(preprocess_obs(obs, self.observation_space, divide))

    @staticmethod
    def init_weights(module: nn.Module, gain: float = 1) -> None:
        """Orthogonal weights and zero biases for linear and convolutional layers."""
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(module.weight, gain=gain)
            if module.bias is not None:
                module.bias.data.fill_(0.0)

    def set_training_mode(self, mode: bool) -> None:
        """Training or evaluation mode, for layers such as dropout."""
        if self.training != mode:
            self.train(mode)

    def is_vectorized_observation(self, observation: Observation) -> bool:
        """Whether it is a batch rather than one observation."""
        return batch_observation(observation, self._space_of(observation))[1]

    def _space_of(self, observation: Observation) -> Space:
        """The space that a given observation is of."""
        return self.observation_space

    def obs_to_tensor(self, observation: Observation) -> tuple[TensorObservation, bool]:
        """The observation as a batch of tensors on the policy's device, and whether it came as a batch."""
        batch, vectorized = batch_observation(observation, self._space_of(observation))
        return obs_as_tensor(batch, self.device), vectorized

    @abstractmethod
    def _predict(
        self, observation: TensorObservation, deterministic: bool = False, action_masks: Tensor | None = None
    ) -> Tensor:
        """Actions for a batch of observations."""

    def predict(
        self,
        observation: Observation,
        state: RecurrentState | None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
        action_masks: Array | None = None,
    ) -> tuple[Any, RecurrentState | None]:
        """Actions that the environment can take, for one observation or a batch, and the next recurrent state.

        ``action_masks`` is true where an action is allowed: [mask] for one observation, [batch, mask] for a batch.
        """
        self.set_training_mode(False)
        tensors, vectorized = self.obs_to_tensor(observation)
        options = {} if action_masks is None else {"action_masks": self._mask_tensor(action_masks, tensors)}
        with torch.no_grad():
            actions = self._predict(tensors, deterministic=deterministic, **options)
        bounded = self.bound_actions(actions.cpu().numpy().reshape((-1, *self.action_shape)))
        return (bounded if vectorized else first_action(bounded)), state

    def _mask_tensor(self, action_masks: Array, observations: TensorObservation) -> Tensor:
        rows = len(observation_parts(observations)[0])
        return torch.as_tensor(check_masks(action_masks, self.action_space, rows), device=self.device)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of one action inside the library: flat columns for a Dict or Tuple of actions."""
        if isinstance(self.action_space, spaces.Dict | spaces.Tuple):
            return (get_action_dim(self.action_space),)
        return self.action_space.shape or ()

    def bound_actions(self, actions: Array) -> Any:
        """Actions as the environment takes them, [env, …].

        Continuous ones are clipped (or rescaled, when squashed) to the bounds, discrete ones counted from the space's
        start; a Dict or Tuple space gets a list with one structured action per environment.
        """
        match self.action_space:
            case spaces.Box():
                return fit_to_box(self.action_space, self.unscale_action(actions) if self.squash_output else actions)
            case spaces.Discrete() | spaces.MultiDiscrete():
                return actions + self.action_space.start if np.any(self.action_space.start) else actions
            case spaces.Dict() | spaces.Tuple():
                return restore_structure(self.action_space, actions)
        return actions

    def scale_action(self, action: Array) -> Array:
        """[low, high] → [−1, 1]"""
        box = self._box()
        return 2.0 * ((action - box.low) / (box.high - box.low)) - 1.0

    def unscale_action(self, scaled_action: Array) -> Array:
        """[−1, 1] → [low, high]"""
        box = self._box()
        return box.low + 0.5 * (scaled_action + 1.0) * (box.high - box.low)

    def _box(self) -> spaces.Box:
        if not isinstance(self.action_space, spaces.Box):
            raise TypeError(f"only Box actions can be rescaled, this policy acts in {self.action_space}")
        return self.action_space

    def parameters_to_vector(self) -> Array:
        """All parameters as one flat array."""
        return nn.utils.parameters_to_vector(self.parameters()).detach().cpu().numpy()

    def _get_constructor_parameters(self) -> dict[str, Any]:
        """The constructor's arguments, for :meth:`save`."""
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "features_extractor_class": self.features_extractor_class,
            "features_extractor_kwargs": self.features_extractor_kwargs,
            "normalize_images": self.normalize_images,
            "optimizer_class": self.optimizer_class,
            "optimizer_kwargs": self.optimizer_kwargs,
        }

    def save(self, path: str | Path) -> None:
        """Write constructor arguments and weights as a safe archive (no pickle).

        The units of a value that was trained with ``normalize_returns`` are the model's: its own ``save`` has them.
        """
        fields, needs = encode_fields(self._get_constructor_parameters())
        manifest: dict[str, Any] = {"content": "policy", "fields": fields, "needs": needs}
        write_archive(path, manifest, {"policy": self.state_dict()})

    @classmethod
    def load(
        cls, path: str | Path, device: torch.device | str = "auto", custom_objects: dict[str, Any] | None = None
    ) -> Self:
        """Rebuild a policy of this class from :meth:`save`'s file."""
        manifest: dict[str, Any]
        budgets = Budgets()
        manifest, tensors = read_archive(path, budgets)
        if manifest.get("content") != "policy":
            content = brief(manifest.get("content"))
            raise ModelFileError(f"{path} holds a {content}, not a policy; load it with what saved it")
        try:
            arguments = decode_fields(manifest["fields"], manifest["needs"], custom_objects, budgets=budgets)
            check_network_size(cls, arguments, tensors["policy"])
            policy = cls(**arguments)
            policy.load_state_dict(tensors["policy"])
        except UNBUILDABLE as error:
            if isinstance(error, ModelFileError):
                raise
            reason = printable(str(error), 1000)
            raise ModelFileError(f"{path} describes no policy that can be built: {reason}") from error
        return policy.to(get_device(device))


BasePolicy.__doc__ = (BasePolicy.__doc__ or "") + describe_constructor(BasePolicy, POLICY_ARGUMENTS)


def zero_learning_rate(_: float) -> float:
    """The schedule of a policy that nobody trains."""
    return 0.0


@stands_for("stable_baselines3.common.policies", "ActorCriticPolicy")
class ActorCriticPolicy(BasePolicy):
    """Policy and value network over one features extractor, or over one each."""

    recurrent: ClassVar[bool] = False  # whether the policy carries a state from step to step
    usual_features_extractor: ClassVar[type[BaseFeaturesExtractor]] = FlattenExtractor
    mlp_extractor: Any  # MlpExtractor, or a user's module with latent_dim_pi, latent_dim_vf, forward_actor, …
    log_std: nn.Parameter
    actor_keys: list[str] | None = None  # what policy and value see of Dict observations; None is everything
    critic_keys: list[str] | None = None

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        lr_schedule: Schedule = zero_learning_rate,
        net_arch: NetArch | None = None,
        activation_fn: type[nn.Module] = nn.Tanh,
        ortho_init: bool = True,
        use_sde: bool = False,
        log_std_init: float = 0.0,
        full_std: bool = True,
        use_expln: bool = False,
        squash_output: bool = False,
        features_extractor_class: type[BaseFeaturesExtractor] | None = None,  # None: the usual one
        features_extractor_kwargs: dict[str, Any] | None = None,
        share_features_extractor: bool = True,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        value_heads: int = 1,  # 2: an intrinsic reward has a value of its own, the second column of all values
        actor_keys: Sequence[str] | None = None,  # of Dict observations: what the policy sees, None is all
        critic_keys: Sequence[str] | None = None,  # the same for the value
    ) -> None:
        self.actor_keys = checked_keys("actor_keys", actor_keys, observation_space)
        self.critic_keys = checked_keys("critic_keys", critic_keys, observation_space)
        if self.actor_keys != self.critic_keys:
            share_features_extractor = False  # they see different things
        if optimizer_kwargs is None and optimizer_class is torch.optim.Adam:
            optimizer_kwargs = {"eps": 1e-5}  # the default 1e-8 lets tiny second moments blow up a step
        super().__init__(
            observation_space,
            action_space,
            features_extractor_class or self.usual_features_extractor,
            features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            squash_output=squash_output,
        )
        if squash_output and not use_sde:
            raise ArgumentValueError("squash_output=True needs use_sde=True: a plain Gaussian is clipped, not squashed")
        if isinstance(net_arch, list) and len(net_arch) == 1 and isinstance(net_arch[0], dict):
            # the form of Stable-Baselines3 before 1.8, which scripts still hold
            warnings.warn("net_arch is a list around a dictionary: give it as net_arch=dict(pi=…, vf=…)", stacklevel=2)
            net_arch = net_arch[0]
        self.net_arch = self._default_net_arch() if net_arch is None else net_arch
        self.activation_fn = activation_fn
        self.value_heads = value_heads
        self.ortho_init = ortho_init
        self.log_std_init = log_std_init
        self.use_sde, self.full_std, self.use_expln = use_sde, full_std, use_expln
        self.share_features_extractor = share_features_extractor
        self.features_extractor = self._extractor_for(self.actor_keys)
        self.pi_features_extractor = self.features_extractor
        self.vf_features_extractor = (
            self.features_extractor if share_features_extractor else self._extractor_for(self.critic_keys)
        )
        self.features_dim = self.pi_features_extractor.features_dim
        self.value_features_dim = self.vf_features_extractor.features_dim
        self.action_dist = self._make_distribution()
        self._build(lr_schedule)

    def _extractor_for(self, keys: Sequence[str] | None) -> BaseFeaturesExtractor:
        if keys is None:
            return self.make_features_extractor()
        if type(self).make_features_extractor is not BasePolicy.make_features_extractor:
            raise ArgumentValueError(
                f"{type(self).__name__} overrides make_features_extractor(), which makes one for all keys; give the "
                "class as features_extractor_class, to be made for actor_keys and critic_keys"
            )
        return self.features_extractor_class(seen_space(self.observation_space, keys), **self.features_extractor_kwargs)

    def _seen_by(self, features_extractor: nn.Module, obs: TensorObservation) -> TensorObservation:
        if vars(features_extractor) is vars(self.pi_features_extractor):  # a tracer's proxies share that, not identity
            return seen_part(obs, self.actor_keys, "actor") if self.actor_keys else obs
        return seen_part(obs, self.critic_keys, "critic") if self.critic_keys else obs

    @property
    def actor_space(self) -> Space:
        """Observations that acting needs: all that :meth:`predict` must be given, and what a deployed policy reads."""
        return seen_space(self.observation_space, self.actor_keys)

    def _space_of(self, observation: Observation) -> Space:
        whole = self.observation_space
        if self.actor_keys is None or not isinstance(observation, dict) or not isinstance(whole, spaces.Dict):
            return whole
        return whole if whole.spaces.keys() <= flatten_given(observation, whole).keys() else self.actor_space

    def _make_distribution(self) -> Distribution:
        noise = {"full_std": self.full_std, "use_expln": self.use_expln, "squash_output": self.squash_output}
        return make_proba_distribution(self.action_space, self.use_sde, noise if self.use_sde else None)

    def _default_net_arch(self) -> NetArch:
        return [] if issubclass(self.features_extractor_class, ImageCNN) else {"pi": [64, 64], "vf": [64, 64]}

    def _build_mlp_extractor(self) -> None:
        """Make ``self.mlp_extractor``; a subclass may put its own network here."""
        value_features_dim = None if self.actor_keys == self.critic_keys else self.value_features_dim
        self.mlp_extractor = MlpExtractor(
            self.features_dim, self.net_arch, self.activation_fn, self.device, value_features_dim
        )

    def _build(self, lr_schedule: Schedule) -> None:
        self._build_mlp_extractor()
        latent_dim = self.mlp_extractor.latent_dim_pi
        if isinstance(self.action_dist, WITH_DEVIATION):
            self.action_net, self.log_std = self.action_dist.proba_distribution_net(latent_dim, self.log_std_init)
        else:
            self.action_net = self.action_dist.proba_distribution_net(latent_dim)
        self.value_net = nn.Linear(self.mlp_extractor.latent_dim_vf, self.value_heads)
        if self.ortho_init:
            self._initialize_orthogonally()
        self.optimizer = self.optimizer_class(
            self.parameters(),
            lr=lr_schedule(1.0),
            **self.optimizer_kwargs,  # type: ignore[call-arg]
        )

    def _initialize_orthogonally(self) -> None:
        # a nearly uniform first policy (gain 0.01) explores; hidden layers keep the scale of their input (√2 for ReLU)
        extractors: dict[nn.Module, float] = {
            extractor: getattr(extractor, "init_gain", math.sqrt(2))
            for extractor in (self.pi_features_extractor, self.vf_features_extractor)
        }
        heads: dict[nn.Module, float] = {self.mlp_extractor: math.sqrt(2), self.action_net: 0.01, self.value_net: 1.0}
        # the order decides who draws which random numbers: a seed builds the network it builds in Stable-Baselines3
        gains = {**extractors, **heads} if self.share_features_extractor else {**heads, **extractors}
        for module, gain in gains.items():
            module.apply(partial(self.init_weights, gain=gain))

    def extract_features(self, obs: TensorObservation, features_extractor: BaseFeaturesExtractor | None = None) -> Any:
        """Features of policy and value: one tensor when the extractor is shared, a pair when not."""
        if self.share_features_extractor:
            return super().extract_features(obs, features_extractor or self.features_extractor)
        if features_extractor is not None:
            warnings.warn("features_extractor is ignored: policy and value have one each", UserWarning, stacklevel=2)
        return (
            super().extract_features(obs, self.pi_features_extractor),
            super().extract_features(obs, self.vf_features_extractor),
        )

    def _latents(self, obs: TensorObservation) -> tuple[Tensor, Tensor]:
        features = self.extract_features(obs)
        if self.share_features_extractor:
            return cast("tuple[Tensor, Tensor]", self.mlp_extractor(features))
        policy_features, value_features = features
        return self.mlp_extractor.forward_actor(policy_features), self.mlp_extractor.forward_critic(value_features)

    def _get_action_dist_from_latent(self, latent_pi: Tensor, action_masks: Tensor | None = None) -> Distribution:
        parameters = self.action_net(latent_pi)
        if isinstance(self.action_dist, StateDependentNoiseDistribution):
            distribution: Distribution = self.action_dist.proba_distribution(parameters, self.log_std, latent_pi)
        elif isinstance(self.action_dist, DiagGaussianDistribution | HybridDistribution):
            distribution = self.action_dist.proba_distribution(parameters, self.log_std)
        else:
            distribution = self.action_dist.proba_distribution(parameters)
        if action_masks is not None:
            distribution.apply_masking(action_masks)
        return distribution

    def forward(
        self, obs: TensorObservation, deterministic: bool = False, action_masks: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Actions [batch, *action], values [batch, 1] and log-probabilities [batch]."""
        latent_pi, latent_vf = self._latents(obs)
        distribution = self._get_action_dist_from_latent(latent_pi, action_masks)
        actions = distribution.get_actions(deterministic=deterministic)
        log_prob = distribution.log_prob(actions)
        return actions.reshape((-1, *self.action_shape)), self.value_net(latent_vf), log_prob

    def evaluate_actions(
        self, obs: TensorObservation, actions: Tensor, action_masks: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values [batch, 1], log-probabilities [batch] and entropy [batch] of given actions."""
        latent_pi, latent_vf = self._latents(obs)
        distribution = self._get_action_dist_from_latent(latent_pi, action_masks)
        return self.value_net(latent_vf), distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: TensorObservation, action_masks: Tensor | None = None) -> Distribution:
        """The distribution of actions for observations."""
        features = super().extract_features(obs, self.pi_features_extractor)
        return self._get_action_dist_from_latent(self.mlp_extractor.forward_actor(features), action_masks)

    def reset_noise(self, n_envs: int = 1) -> None:
        """Redraw the noise matrices of state-dependent exploration."""
        if not isinstance(self.action_dist, StateDependentNoiseDistribution):
            raise ArgumentValueError("reset_noise() needs a policy with use_sde=True")
        self.action_dist.sample_weights(self.log_std, batch_size=n_envs)

    def predict_values(self, obs: TensorObservation) -> Tensor:
        """[batch, 1]"""
        features = super().extract_features(obs, self.vf_features_extractor)
        return self.value_net(self.mlp_extractor.forward_critic(features))

    def _predict(
        self, observation: TensorObservation, deterministic: bool = False, action_masks: Tensor | None = None
    ) -> Tensor:
        distribution = (
            self.get_distribution(observation)  # a user's override may know nothing of masks
            if action_masks is None
            else self.get_distribution(observation, action_masks)
        )
        return distribution.get_actions(deterministic=deterministic)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {
            "net_arch": self.net_arch,
            "activation_fn": self.activation_fn,
            "ortho_init": self.ortho_init,
            "use_sde": self.use_sde,
            "log_std_init": self.log_std_init,
            "full_std": self.full_std,
            "use_expln": self.use_expln,
            "squash_output": self.squash_output,
            "share_features_extractor": self.share_features_extractor,
            **({} if self.value_heads == 1 else {"value_heads": self.value_heads}),
            **({} if self.actor_keys is None else {"actor_keys": self.actor_keys}),
            **({} if self.critic_keys is None else {"critic_keys": self.critic_keys}),
        }


class ActorCriticCnnPolicy(ActorCriticPolicy):
    """The policy for images."""

    usual_features_extractor = NatureCNN


class MultiInputActorCriticPolicy(ActorCriticPolicy):
    """The policy for Dict observations: each key has its own extractor, the features stand side by side."""

    usual_features_extractor = CombinedExtractor


POLICY_ALIASES: Mapping[str, type[ActorCriticPolicy]] = {
    "MlpPolicy": ActorCriticPolicy,
    "CnnPolicy": ActorCriticCnnPolicy,
    "MultiInputPolicy": MultiInputActorCriticPolicy,
}

for _class in (
    FlattenExtractor,
    NatureCNN,
    ImpalaCNN,
    MinAtarCNN,
    CombinedExtractor,
    RMSpropTFLike,
    *POLICY_ALIASES.values(),
):
    register_class(_class.__name__, _class)
