"""Hsuanwu's PPG learner: the library's, fed from Hsuanwu's storage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from proximo.backends.runtime import Runtime
from proximo.config import PPGConfig, UpdateSettings
from proximo.data import Metrics
from proximo.functional.spaces import Space
from proximo.hsuanwu.common.spaces import SpaceLike, describe_action_space, to_action_space, to_observation_space
from proximo.hsuanwu.xploit.encoder import EspeholtResidualEncoder, VanillaMlpEncoder
from proximo.hsuanwu.xploit.learner.network import EncoderAndTrunk, TrunkPolicy
from proximo.hsuanwu.xploit.storage import VanillaRolloutStorage
from proximo.hsuanwu.xplore import distribution as distributions
from proximo.learners.ppg import PPGLearner as LibraryLearner
from proximo.networks.actor_critic import get_device
from proximo.rllte.agent.learner_agent import configuration
from proximo.rllte.common.prototype.base_agent import output_width
from proximo.rollout.phase import PhaseBuffer

DISTRIBUTIONS: dict[type[Any], type[Any]] = {
    spaces.Discrete: distributions.Categorical,
    spaces.Box: distributions.DiagonalGaussian,
    spaces.MultiBinary: distributions.Bernoulli,
}


class PPGLearner:
    """Phasic policy gradient (https://arxiv.org/abs/2009.04416) with Hsuanwu's arguments, defaults and methods.

    ``policy_epochs`` is the number of rollouts between auxiliary phases, each of ``aux_epochs`` passes in
    ``num_aux_mini_batch`` minibatches, ``num_aux_grad_accum`` of which make one step. The learner can be used as soon
    as it is made: images go through EspeholtResidualEncoder, other observations through VanillaMlpEncoder, until
    another encoder is assigned to ``encoder``.

    >>> learner = PPGLearner({"shape": (4,)}, {"shape": (2,), "type": "Discrete", "range": [0, 1]}, "cpu")
    >>> learner.get_value(torch.zeros(3, 4)).shape
    torch.Size([3, 1])
    """

    def __init__(
        self,
        observation_space: SpaceLike,
        action_space: SpaceLike,
        device: torch.device | str,
        feature_dim: int = 256,
        lr: float = 5e-4,
        eps: float = 1e-5,
        hidden_dim: int = 256,
        clip_range: float = 0.2,
        num_policy_mini_batch: int = 8,
        num_aux_mini_batch: int = 4,
        vf_coef: float = 0.5,
        ent_coef: float = 0.01,
        max_grad_norm: float = 0.5,
        policy_epochs: int = 32,
        aux_epochs: int = 6,
        kl_coef: float = 1.0,
        num_aux_grad_accum: int = 1,
    ) -> None:
        self.observation_space = to_observation_space(observation_space)
        self.action_space = to_action_space(action_space)
        self.device = get_device(device)
        for name, count in (
            ("feature_dim", feature_dim), ("hidden_dim", hidden_dim), ("num_policy_mini_batch", num_policy_mini_batch),
            ("policy_epochs", policy_epochs),
        ):  # fmt: skip
            if not isinstance(count, int | np.integer) or count < 1:
                raise ValueError(f"{name} is {count!r}; expected a positive whole number")
        if not eps > 0:
            raise ValueError(f"eps is {eps}; expected a positive number")
        self.feature_dim, self.hidden_dim, self.lr, self.eps = feature_dim, hidden_dim, lr, eps
        self.num_policy_mini_batch, self.clip_range = num_policy_mini_batch, clip_range
        self.config = configuration(locals(), PPGConfig, clip_range_vf=clip_range)
        shared = EncoderAndTrunk(self.observation_space, self._default_encoder(), feature_dim, hidden_dim)
        self.network = TrunkPolicy(self.observation_space, self.action_space, shared, lr, eps).to(self.device)
        # follows torch's global generator, so that seeding that one makes a run repeatable
        self.generator = np.random.default_rng(int(torch.randint(2**31, ()).item()))
        self._learner: LibraryLearner | None = None  # made with the first storage, whose sizes its memory has
        self._dist: Any = None
        self.runtime = Runtime(self.generator)
        self.runtime.policy = self.network
        self.train()

    def _default_encoder(self) -> nn.Module:
        if len(self.observation_space.shape) == 3:
            return EspeholtResidualEncoder(self.observation_space, self.feature_dim)
        return VanillaMlpEncoder(self.observation_space, self.feature_dim, self.hidden_dim)

    # -- what Hsuanwu's trainer puts in place

    @property
    def encoder(self) -> nn.Module:
        return self.network.features_extractor.encoder

    @encoder.setter
    def encoder(self, encoder: nn.Module) -> None:
        """Take another encoder with the weights it has; trunk and heads stay."""
        if not isinstance(encoder, nn.Module):
            raise TypeError(f"encoder is {encoder!r:.80}; expected a torch module that gives [batch, feature_dim]")
        encoder = encoder.to(self.device)
        width = output_width(encoder, self.observation_space)
        if width != self.feature_dim:
            raise ValueError(
                f"{type(encoder).__name__} gives {width} features, the learner was made with feature_dim "
                f"{self.feature_dim}; make both with the same feature_dim"
            )
        self.network.replace_encoder(encoder)

    @property
    def encoder_opt(self) -> torch.optim.Optimizer:
        """The optimiser of the whole network, encoder included."""
        return self.network.optimizer

    @encoder_opt.setter
    def encoder_opt(self, optimizer: torch.optim.Optimizer) -> None:
        """Accepted where it changes nothing: one Adam for all parameters is as good as one for each part."""
        groups = [(group.get("lr"), group.get("eps")) for group in optimizer.param_groups]
        if type(optimizer) is not torch.optim.Adam or set(groups) != {(self.lr, self.eps)}:
            raise ValueError(
                f"encoder_opt is {type(optimizer).__name__} with (lr, eps) {groups}; the encoder is trained by the "
                f"learner's own Adam with lr {self.lr} and eps {self.eps}: pass those to PPGLearner"
            )

    @property
    def dist(self) -> Any:
        return self._dist

    @dist.setter
    def dist(self, dist: Any) -> None:
        """Accepted where it is the distribution that the actions have anyway."""
        fitting = DISTRIBUTIONS[type(self.action_space)]
        if (dist if isinstance(dist, type) else type(dist)) is not fitting:
            raise ValueError(
                f"dist is {dist!r:.80}; PPGLearner draws actions of {self.action_space} from {fitting.__name__}"
            )
        self._dist = dist

    # -- use

    def train(self, training: bool = True) -> None:
        """Training or evaluation mode of the network's layers."""
        self.training = training
        self.network.train(training)

    def get_value(self, obs: Tensor) -> Tensor:
        """[batch, 1]"""
        return self.network.predict_values(self._checked(obs))

    @torch.no_grad()
    def act(self, obs: Tensor, training: bool = True, step: int = 0) -> tuple[Tensor, dict[str, Tensor]]:
        """Sampled actions [batch, …] with their ``log_probs`` and ``values`` [batch, 1]; Box actions may exceed the
        bounds, as the storage needs them.

        With ``training=False`` the likeliest actions as the environment takes them, and an empty dictionary.
        """
        if not training:
            likeliest = self.network.get_distribution(self._checked(obs)).mode()
            rows = likeliest.cpu().numpy().reshape(-1, *self.network.action_shape)
            return torch.as_tensor(self.network.bound_actions(rows), device=self.device), {}
        actions, values, log_probs = self.network(self._checked(obs))
        return actions, {"log_probs": log_probs.unsqueeze(1), "values": values}

    def _checked(self, obs: Tensor) -> Tensor:
        shape = self.observation_space.shape
        if tuple(obs.shape[1:]) != shape:
            raise ValueError(f"obs has shape {tuple(obs.shape)}; expected [batch, {', '.join(map(str, shape))}]")
        return obs.to(self.device)

    # -- training

    def update(self, rollout_storage: VanillaRolloutStorage, episode: int = 0) -> Metrics:
        """Train on the storage's rollout, and with every ``policy_epochs``-th one on all of them again.

        ``episode`` is the count of updates, which the learner keeps itself: the auxiliary phase runs when it has seen
        its rollouts. Returns ``actor_loss``, ``critic_loss`` and ``entropy``, and after an auxiliary phase ``aux_loss``
        and ``kl_loss``.
        """
        self.check_storage(rollout_storage)
        if not rollout_storage.estimated:
            raise ValueError(
                f"the storage holds {rollout_storage.step} of {rollout_storage.num_steps} steps without advantages; "
                "fill it and call compute_returns_and_advantages(last_values) before update()"
            )
        settings = self._settings(rollout_storage)
        learner = self._learner or self._make_learner(rollout_storage)
        return hsuanwu_metrics(
            learner.update(rollout_storage.buffer, settings, replace(self.config, learning_rate=self.lr))
        )

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
        if self._learner is None:
            self._sized_config(storage).check_environments(storage.num_envs)
        elif (held := _rollout_kind(storage)) != (begun := _phase_kind(self._learner.phase)):
            raise ValueError(
                f"the storage holds {held[0]} steps of {held[1]} environments with observations {held[2]}, the "
                f"learner has begun with {begun[0]} of {begun[1]} with {begun[2]}; go on with such a storage, or make "
                "a new learner"
            )

    def _sized_config(self, storage: VanillaRolloutStorage) -> PPGConfig:
        batch_size = storage.batch_size(self.num_policy_mini_batch, "num_policy_mini_batch")
        return replace(self.config, n_steps=storage.num_steps, batch_size=batch_size)

    def _make_learner(self, storage: VanillaRolloutStorage) -> LibraryLearner:
        phase = PhaseBuffer(
            self.config.rollouts_per_phase, storage.num_steps, storage.num_envs, storage.buffer.observation_space
        )
        phase.allocate()  # too little memory is an error now, not after hours
        self._learner = LibraryLearner(self.runtime, phase)
        return self._learner

    def _settings(self, storage: VanillaRolloutStorage) -> UpdateSettings:
        """Hsuanwu halves the squared error and counts the larger clipped one."""
        config = self._sized_config(storage)
        return UpdateSettings(
            learning_rate=self.lr,
            batch_size=config.batch_size,
            n_epochs=1,
            clip_range=self.clip_range,
            clip_range_vf=self.clip_range,
            pessimistic_value=True,
            normalize_advantage=False,
            ent_coef=config.ent_coef,
            vf_coef=0.5 * config.vf_coef,
            max_grad_norm=config.max_grad_norm,
            target_kl=None,
        )

    # -- what a file keeps beside the network

    def auxiliary_state(self) -> dict[str, Tensor]:
        """The memory of the auxiliary phase's optimiser."""
        return {} if self._learner is None else dict(self._learner.optimizer.moments())

    def load_auxiliary_state(self, moments: dict[str, Tensor], storage: VanillaRolloutStorage) -> None:
        """Go on with that memory, at the beginning of a phase with rollouts like the storage's."""
        learner = self._learner or self._make_learner(storage)
        learner.optimizer.load_moments(moments)
        learner.phase.clear()


def hsuanwu_metrics(metrics: Metrics) -> Metrics:
    """The library's metrics under Hsuanwu's names: half the squared error, and the entropy with its own sign.

    >>> hsuanwu_metrics({"policy_gradient_loss": 1.0, "value_loss": 3.0, "entropy_loss": -0.5, "kl_loss": 0.1})
    {'actor_loss': 1.0, 'critic_loss': 1.5, 'entropy': 0.5, 'kl_loss': 0.1}
    """
    named = {
        "actor_loss": metrics["policy_gradient_loss"],
        "critic_loss": 0.5 * metrics["value_loss"],
        "entropy": -metrics["entropy_loss"],
    }
    auxiliary = {"aux_loss": "aux_value_loss", "kl_loss": "kl_loss"}
    return named | {name: metrics[own] for name, own in auxiliary.items() if own in metrics}


def _actions(space: Space) -> tuple[str, tuple[int, ...]]:
    described = describe_action_space(space)
    return described["type"], described["shape"]


def _rollout_kind(storage: VanillaRolloutStorage) -> tuple[int, int, Space]:
    return storage.num_steps, storage.num_envs, storage.buffer.observation_space


def _phase_kind(phase: PhaseBuffer) -> tuple[int, int, Space]:
    return phase.steps, phase.environments, phase.observation_space
