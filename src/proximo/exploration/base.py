"""What every intrinsic reward does alike: reading samples, normalising, weighting, training, saving its state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from proximo.errors import NonFiniteError, near_matches
from proximo.functional.spaces import (
    counted_from_zero,
    get_action_dim,
    get_flattened_obs_dim,
    is_image_space,
    preprocess_obs,
)
from proximo.functional.statistics import RunningMeanStd
from proximo.networks.distributions import make_proba_distribution

Samples = Mapping[str, Tensor]
SAMPLE_KEYS = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")
REWARD_NORMALIZATIONS = ("rms", "minmax", "none")
OBSERVATION_NORMALIZATIONS = ("rms", "none")
# images of a long rollout go through a network in pieces
ROWS_AT_ONCE = 1024


class Transitions(NamedTuple):
    """Samples, checked and on the reward's device; ``…`` is [time, env], or [batch] for a minibatch."""

    observations: Tensor  # […, *observation]
    actions: Tensor  # […, action column]
    next_observations: Tensor  # […, *observation]: at an episode's end its last one, not the next episode's first
    ended: Tensor  # […] bool


class BaseReward(ABC):
    """Base of intrinsic rewards; your own calls ``super().compute(samples, sync)`` first and returns its rewards.

    ``envs`` gives spaces and ``num_envs``; it is not stepped. The weight of the reward is ``beta`` · (1 − ``kappa``)ⁿ
    in the n-th call of :meth:`compute`.

    ``rwd_norm_type`` "rms" divides by the running deviation of the rewards, or, with ``gamma``, of their discounted
    sums (Burda et al. 2018); "minmax" stretches each call's rewards to [0, 1]. ``obs_norm_type`` "rms" standardises
    observations with running statistics and clips them to ±5; "none" only divides images by 255.
    """

    def __init__(
        self,
        envs: Any,
        device: str = "cpu",
        beta: float = 1.0,
        kappa: float = 0.0,
        gamma: float | None = None,
        rwd_norm_type: str = "rms",
        obs_norm_type: str = "rms",
    ) -> None:
        _check_choice("rwd_norm_type", rwd_norm_type, REWARD_NORMALIZATIONS)
        _check_choice("obs_norm_type", obs_norm_type, OBSERVATION_NORMALIZATIONS)
        if not 0.0 <= kappa < 1.0:
            raise ValueError(f"kappa is a share of the weight lost per call, 0 <= kappa < 1; got {kappa}")
        self.observation_space = getattr(envs, "single_observation_space", envs.observation_space)
        self.action_space = getattr(envs, "single_action_space", envs.action_space)
        if not isinstance(self.observation_space, spaces.Box):
            raise ValueError(f"intrinsic rewards read Box observations, got {self.observation_space}")
        if not isinstance(self.action_space, spaces.Discrete | spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
            raise ValueError(
                f"intrinsic rewards read Discrete, Box, MultiDiscrete and MultiBinary actions, got {self.action_space}"
            )
        self.n_envs = int(envs.num_envs)
        self.obs_shape = tuple(self.observation_space.shape)
        self.action_shape = tuple(self.action_space.shape or ())
        self.action_type = type(self.action_space).__name__
        self.action_dim = get_action_dim(self.action_space)
        self.policy_action_dim = get_flattened_obs_dim(self.action_space)
        self.device = torch.device(device)
        self.beta, self.kappa, self.gamma = beta, kappa, gamma
        self.rwd_norm_type, self.obs_norm_type = rwd_norm_type, obs_norm_type
        self.statistics = {"rewards": RunningMeanStd(), "observations": RunningMeanStd(shape=self.obs_shape)}
        self.discounted_rewards = torch.zeros(self.n_envs, device=self.device)
        self.global_step = 0
        # pairs of step and value
        self.metrics: dict[str, list[tuple[int, float]]] = {"loss": [], "intrinsic_rewards": []}

    @property
    def weight(self) -> float:
        return float(self.beta * (1.0 - self.kappa) ** self.global_step)

    def watch(  # noqa: B027 - for those who want to see each step
        self,
        observations: Tensor,
        actions: Tensor,
        rewards: Tensor,
        terminateds: Tensor,
        truncateds: Tensor,
        next_observations: Tensor,
    ) -> None:
        """See one step of all environments. Ours need not be called: all they need is in the samples of a rollout."""

    @abstractmethod
    def compute(self, samples: Samples, sync: bool = True) -> Tensor:
        """Intrinsic rewards [time, env] of a rollout, and, with ``sync``, the training on it.

        Without ``sync`` this only looks: no statistics, memories, networks or counters change.
        The base counts the call, takes the observations into the statistics, and gives zeros.
        """
        transitions = self.transitions(samples)
        if sync:
            if self.obs_norm_type == "rms":
                rows = transitions.observations.flatten(0, 1).float()
                variance, mean = torch.var_mean(rows, dim=0, correction=0)
                moments = mean.double().cpu().numpy(), variance.double().cpu().numpy()
                self.statistics["observations"].update_from_moments(*moments, len(rows))
            self.global_step += 1
        return torch.zeros(transitions.ended.shape, device=self.device)

    def update(self, samples: Samples) -> None:  # noqa: B027 - optional: a reward without networks has nothing to train
        """Train on a rollout; done by :meth:`compute` with ``sync``."""

    def normalize(self, x: Tensor) -> Tensor:
        """Observations as the networks read them; any number of leading dimensions."""
        if self.obs_norm_type == "rms":
            statistics = self.statistics["observations"]
            mean = torch.as_tensor(statistics.mean, dtype=torch.float32, device=x.device)
            deviation = torch.as_tensor(np.sqrt(statistics.var + 1e-8), dtype=torch.float32, device=x.device)
            return ((x.float() - mean) / deviation).clamp(-5.0, 5.0)
        return x.float() / 255.0 if is_image_space(self.observation_space) else x.float()

    def scale(self, rewards: Tensor, sync: bool = True) -> Tensor:
        """Normalised and weighted rewards [time, env]; with ``sync`` they enter the running deviation first."""
        if self.rwd_norm_type == "rms":
            if sync:
                self._count_rewards(rewards)
            rewards = rewards / float(np.sqrt(self.statistics["rewards"].var) + 1e-8)
        elif self.rwd_norm_type == "minmax":
            lowest, highest = rewards.min(), rewards.max()
            rewards = (rewards - lowest) / (highest - lowest).clamp(min=1e-8)
        return self.weight * rewards

    def _count_rewards(self, rewards: Tensor) -> None:
        if self.gamma is not None:
            sums = []
            for row in rewards:
                self.discounted_rewards = self.gamma * self.discounted_rewards + row
                sums.append(self.discounted_rewards)
            rewards = torch.stack(sums)
        self.statistics["rewards"].update(rewards.double().flatten().cpu().numpy())

    def transitions(self, samples: Samples) -> Transitions:
        """The samples, checked: keys, shapes [time, env, …], finite numbers."""
        if missing := [key for key in SAMPLE_KEYS if key not in samples]:
            raise ValueError(f"samples lack {missing}; intrinsic rewards need {list(SAMPLE_KEYS)}")
        parts = {key: torch.as_tensor(samples[key], device=self.device) for key in SAMPLE_KEYS}
        steps = parts["rewards"].shape[0] if parts["rewards"].dim() else 0
        lead = (steps, self.n_envs)
        for key in ("rewards", "terminateds", "truncateds"):
            _check_shape(key, parts[key], lead)
        for key in ("observations", "next_observations"):
            _check_shape(key, parts[key], (*lead, *self.obs_shape))
            if parts[key].is_floating_point() and not torch.isfinite(parts[key]).all():
                raise NonFiniteError(f"NaN or infinity in the {key} that an intrinsic reward is computed of")
        if steps == 0 or parts["actions"].numel() != steps * self.n_envs * self.action_dim:
            raise ValueError(
                f"actions of {self.action_space} in {steps} steps of {self.n_envs} environments have shape "
                f"{(*lead, *self.action_shape)}, got {tuple(parts['actions'].shape)}"
            )
        actions = parts["actions"].reshape(*lead, self.action_dim)
        self._check_actions(actions)
        ended = parts["terminateds"].bool() | parts["truncateds"].bool()
        return Transitions(parts["observations"], actions, parts["next_observations"], ended)

    def _check_actions(self, actions: Tensor) -> None:
        if isinstance(self.action_space, spaces.Discrete | spaces.MultiDiscrete):
            sizes = torch.as_tensor(getattr(self.action_space, "nvec", self.policy_action_dim), device=self.device)
            if bool(((actions < 0) | (actions >= sizes)).any()):
                raise ValueError(f"actions of {self.action_space} count from 0; got {actions.min()} to {actions.max()}")

    def state_dict(self) -> dict[str, Any]:
        """All that :meth:`compute` depends on: numbers, arrays, tensors, and lists and dictionaries of them."""
        return {
            "global_step": self.global_step,
            "discounted_rewards": self.discounted_rewards.clone(),
            "statistics": {
                name: {"mean": part.mean.copy(), "var": part.var.copy(), "count": float(part.count)}
                for name, part in self.statistics.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a reward of the same kind and size was when its :meth:`state_dict` was taken."""
        self.global_step = int(state["global_step"])
        self.discounted_rewards = state["discounted_rewards"].to(self.device).clone()
        for name, part in self.statistics.items():
            saved = state["statistics"][name]
            part.mean, part.var = np.array(saved["mean"], np.float64), np.array(saved["var"], np.float64)
            part.count = float(saved["count"])


class NoveltyReward(BaseReward):
    """An intrinsic reward made of networks and perhaps a memory: subclasses say what is new and what to train."""

    networks: nn.ModuleDict
    optimizer: torch.optim.Adam | None = None
    batch_size: int = 256
    update_proportion: float = 1.0

    def __init__(self, *common: Any) -> None:
        super().__init__(*common)
        self.networks = nn.ModuleDict()
        self.memory: list[Tensor] = []

    def train_networks(self, lr: float, batch_size: int, update_proportion: float) -> None:
        """Called when all networks are there: one Adam trains those that are not frozen."""
        if batch_size < 1 or not 0.0 < update_proportion <= 1.0:
            raise ValueError(
                f"batch_size must be positive and update_proportion in (0, 1]; got {batch_size} and {update_proportion}"
            )
        self.batch_size, self.update_proportion = batch_size, update_proportion
        self.optimizer = torch.optim.Adam([part for part in self.networks.parameters() if part.requires_grad], lr=lr)

    @abstractmethod
    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        """The reward [time, env] before normalisation; the memory moves on only with ``sync``."""

    def losses(self, batch: Transitions) -> Tensor:
        """Training losses per sample [batch], or [network, batch]."""
        raise NotImplementedError(f"{type(self).__name__} trains networks and must say what their losses are")

    def compute(self, samples: Samples, sync: bool = True) -> Tensor:
        super().compute(samples, sync)
        with torch.no_grad():
            novelty = self.novelty(self.transitions(samples), sync)
        if sync:
            self.metrics["intrinsic_rewards"].append((self.global_step, float(novelty.mean())))
            self.update(samples)
        return self.scale(novelty, sync)

    def update(self, samples: Samples) -> None:
        if self.optimizer is None:
            return
        rows = Transitions(*(part.flatten(0, 1) for part in self.transitions(samples)))
        total = 0.0
        batches = torch.randperm(len(rows.ended), device=self.device).split(self.batch_size)
        for indices in batches:
            losses = self.losses(Transitions(*(part[indices] for part in rows)))
            chosen = torch.rand(losses.shape, device=self.device) < self.update_proportion
            loss = (losses * chosen).sum() / chosen.sum().clamp(min=1)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        self.metrics["loss"].append((self.global_step, total / len(batches)))

    def features(self, network: str, observations: Tensor) -> Tensor:
        """[time, env, feature] of a network over [time, env, *observation]."""
        pieces = observations.flatten(0, 1).split(ROWS_AT_ONCE)
        rows = torch.cat([self.networks[network](self.normalize(piece)) for piece in pieces])
        return rows.unflatten(0, observations.shape[:2])

    def encode_actions(self, actions: Tensor) -> Tensor:
        """[batch, action column] → [batch, width]: choices one-hot, switches and continuous actions as they are."""
        encoded = preprocess_obs(actions, counted_from_zero(self.action_space), normalize_images=False)
        return encoded.flatten(1)  # type: ignore[union-attr]

    def action_losses(self, predicted: Tensor, actions: Tensor) -> Tensor:
        """[batch]: squared error for continuous actions, else −log p(action)."""
        if isinstance(self.action_space, spaces.Box):
            return (predicted - actions).square().mean(dim=-1)
        return -make_proba_distribution(self.action_space).proba_distribution(predicted).log_prob(actions)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["networks"] = {name: tensor.clone() for name, tensor in self.networks.state_dict().items()}
        state["optimizer"] = self.optimizer.state_dict() if self.optimizer else {}
        state["memory"] = [tensor.clone() for tensor in self.memory]
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.networks.load_state_dict(state["networks"])
        if self.optimizer:
            self.optimizer.load_state_dict(state["optimizer"])
        self.memory = [tensor.to(self.device).clone() for tensor in state["memory"]]


def total_reward(reward: BaseReward, samples: Samples, sync: bool = True) -> Tensor:
    """One reward [time, env] for an agent: a mix that gives its parts one by one is summed, and the shape checked."""
    computed: Any = reward.compute(samples, sync)
    if isinstance(computed, list | tuple):
        computed = torch.stack(list(computed)).sum(dim=0)
    _check_shape(f"rewards of {type(reward).__name__}", computed, tuple(samples["rewards"].shape))
    return computed


def _check_choice(name: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ValueError(f"unknown {name} {given!r}; {near_matches(str(given), known)}")


def _check_shape(name: str, tensor: Tensor, expected: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != expected:
        raise ValueError(f"{name} must have shape {expected} (time, env, …), got {tuple(tensor.shape)}")
