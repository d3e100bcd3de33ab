"""What every intrinsic reward does alike: reading rollouts, normalising, weighting, saving its state."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from proximo.config import FINITE, FRACTION, check_fields, hyperparameter, numeric, one_of
from proximo.data import Array, Observation, Rollout, TensorObservation
from proximo.errors import NonFiniteError
from proximo.exploration.observations import ObservationReader, check_shape
from proximo.functional.actions import leaves
from proximo.functional.spaces import (
    Space,
    counted_from_zero,
    get_action_dim,
    get_flattened_obs_dim,
    obs_as_tensor,
)
from proximo.functional.statistics import RunningMeanStd

Samples = Mapping[str, Any]  # tensors [time, env, …]; observations of a Dict space are dictionaries of them
SAMPLE_KEYS = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")


class Transitions(NamedTuple):
    """Samples, checked and on the reward's device; ``…`` is [time, env], or [batch] for a minibatch."""

    observations: Tensor  # […, *obs_shape]
    actions: Tensor  # […, action column]
    next_observations: Tensor  # […, *obs_shape]: at an episode's end its last one, not the next episode's first
    ended: Tensor  # […] bool
    valid: Tensor  # […] bool: real steps, which the reward learns from


@dataclass(kw_only=True, eq=False)
class IntrinsicReward(ABC):
    """Base of intrinsic rewards: a number per step that says how new it was (``PPO(…, intrinsic_reward=RND())``).

    It is made without an environment; the agent binds it to its spaces. One object belongs to one training.

    A reward of your own implements :meth:`compute`: it calls ``super().compute(samples, sync)`` first and returns
    ``self.scale(rewards, sync)``. Networks and memories are made in :meth:`build`, and what they learned goes into
    ``state_dict``.
    """

    beta: float = hyperparameter("Weight of the intrinsic reward.", 1.0, FINITE)
    kappa: float = hyperparameter(
        "Share of the weight that is lost with each rollout.",
        0.0,
        numeric(lambda value: 0 <= value < 1, "0 <= kappa < 1"),
    )
    gamma: float | None = hyperparameter(
        "With rwd_norm_type 'rms', divide by the deviation of rewards discounted with this and summed; None divides by "
        "the deviation of single rewards, or, with own_value, takes discount.",
        None,
        FRACTION,
    )
    rwd_norm_type: str = hyperparameter(
        "How rewards are normalised: 'rms' divides by a running deviation (Burda et al. 2018), 'minmax' stretches each "
        "rollout's to [0, 1], 'none' leaves them.",
        "rms",
        one_of("rms", "minmax", "none"),
    )
    obs_norm_type: str = hyperparameter(
        "How observations are normalised: 'rms' standardises them with running statistics and clips them to ±5, 'none' "
        "only divides images by 255.",
        "rms",
        one_of("rms", "none"),
    )
    extrinsic_coef: float = hyperparameter(
        "Weight of the environment's own rewards; 0 trains on the intrinsic reward alone.", 1.0, FINITE
    )
    own_value: bool = hyperparameter(
        "Give the intrinsic reward a second value head and returns of its own, which go on over the ends of episodes; "
        "the advantage is extrinsic_coef * A + beta * A_intrinsic (Burda et al. 2018). Without it, the intrinsic "
        "reward is added to the environment's.",
        False,
    )
    discount: float | None = hyperparameter(
        "Discount factor of the returns that own_value gives; None takes the agent's.", None, FRACTION
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.discount is not None and not self.own_value:
            raise ValueError(
                f"discount is {self.discount}, but without own_value=True the intrinsic reward is part of the reward "
                "that the agent discounts with its own gamma; leave discount out or give own_value=True"
            )
        self.global_step = 0  # rollouts that were learned from
        self.skip_non_finite = False  # leave out a minibatch whose loss is not finite, instead of stopping
        # pairs of step and value
        self.metrics: dict[str, list[tuple[int, float]]] = {"loss": [], "intrinsic_rewards": []}
        self._bound_to: tuple[Space, Space, int, torch.device] | None = None

    def arguments(self) -> dict[str, Any]:
        """What it was made with, by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    # -- binding

    @property
    def bound(self) -> bool:
        """Whether spaces, networks and memories are there."""
        return self._bound_to is not None

    @property
    def bound_to(self) -> tuple[Space, Space, int, torch.device]:
        """The arguments of :meth:`bind`."""
        if self._bound_to is None:
            raise ValueError(
                f"this {type(self).__name__} does not know its spaces yet; give it to an agent "
                f"(PPO(…, intrinsic_reward={type(self).__name__}())) or call bind(observation_space, …) first"
            )
        return self._bound_to

    def bind(
        self, observation_space: Space, action_space: Space, n_envs: int, device: torch.device | str = "cpu"
    ) -> Self:
        """Take the spaces, and make networks and memories with torch's global generator; agents call this.

        Bound to the same a second time, it stays as it is.
        """
        wanted = (observation_space, action_space, int(n_envs), torch.device(device))
        if self._bound_to is not None:
            if self._bound_to != wanted:
                raise ValueError(
                    f"this {type(self).__name__} was made for {self._described(self._bound_to)}, not for "
                    f"{self._described(wanted)}; make a new one"
                )
            return self
        self.observation_space, self.action_space, self.n_envs, self.device = wanted
        self.reader = ObservationReader(observation_space)
        self.obs_shape = self.reader.shape
        self.action_shape = tuple(action_space.shape or ())
        self.action_type = type(action_space).__name__
        self.action_dim = get_action_dim(action_space)
        self.action_parts = [
            counted_from_zero(part) for part in leaves(action_space)
        ]  # one, unless it is a Dict or Tuple
        self.policy_action_dim = sum(map(get_flattened_obs_dim, self.action_parts))
        self.statistics = {"rewards": RunningMeanStd(), "observations": RunningMeanStd(shape=self.obs_shape)}
        self.discounted_rewards = torch.zeros(self.n_envs, device=self.device)
        self._bound_to = wanted
        self.build()
        return self

    @staticmethod
    def _described(bound_to: tuple[Space, Space, int, torch.device]) -> str:
        observation_space, action_space, n_envs, device = bound_to
        return f"{n_envs} environments of {observation_space} and {action_space} on {device}"

    def build(self) -> None:  # noqa: B027 - optional: a reward may need no network
        """Make networks and memories; ``obs_shape``, ``n_envs``, ``device`` and the like are known here."""

    # -- the reward

    @property
    def weight(self) -> float:
        """The weight of this rollout: beta, less what kappa took."""
        return float(self.beta * (1.0 - self.kappa) ** self.global_step)

    @abstractmethod
    def compute(self, samples: Samples, sync: bool = True) -> Tensor:
        """Intrinsic rewards [time, env] of a rollout, and, with ``sync``, the training on it.

        Without ``sync`` this only looks: no statistics, memories, networks or counters change.
        The base counts the call, takes the observations into the statistics, and gives zeros.
        """
        transitions = self.transitions(samples)
        if sync:
            self.observe(transitions)
        return torch.zeros(transitions.ended.shape, device=self.device)

    def observe(self, transitions: Transitions) -> None:
        """Count a rollout, and take its observations into the statistics."""
        rows = transitions.observations[transitions.valid].float()
        if self.obs_norm_type == "rms" and len(rows):
            variance, mean = torch.var_mean(rows, dim=0, correction=0)
            moments = mean.double().cpu().numpy(), variance.double().cpu().numpy()
            self.statistics["observations"].update_from_moments(*moments, len(rows))
        self.global_step += 1

    def update(self, samples: Samples) -> None:  # noqa: B027 - optional: a reward without networks has nothing to train
        """Train on a rollout; done by :meth:`compute` with ``sync``."""

    def shape(self, rollout: Rollout, next_observations: Observation) -> None:
        """Compute the intrinsic reward of a full rollout, learn from it, and put it where the advantages read it.

        It is kept in ``rollout.intrinsic_rewards``, 0 in rows that are no steps, and added to the rewards unless it has
        its own value. Rows whose reward is not finite are left out of the learning.
        """
        samples = self.samples(rollout, next_observations)
        computed = total_reward(self, samples).detach().cpu().numpy().astype(np.float32)
        finite = np.isfinite(computed)
        rollout.intrinsic_rewards = np.where(finite & samples["valid"].cpu().numpy(), computed, np.float32(0))
        if not self.own_value:
            rollout.rewards[:] = self.extrinsic_coef * rollout.rewards + rollout.intrinsic_rewards
        rollout.rewards[~finite] = np.nan  # refused, or left out with its step

    def samples(self, rollout: Rollout, next_observations: Observation) -> dict[str, Any]:
        """A rollout as intrinsic rewards read it: tensors [time, env, …]."""
        valid = np.isfinite(rollout.rewards) & (True if rollout.valid is None else rollout.valid)
        arrays: dict[str, Array] = {
            "actions": rollout.actions,
            "rewards": rollout.rewards,
            "terminateds": rollout.terminated.astype(np.float32),
            "truncateds": rollout.truncated.astype(np.float32),
            "valid": valid,
        }
        return {
            "observations": obs_as_tensor(rollout.observations, self.device),
            "next_observations": obs_as_tensor(next_observations, self.device),
            **{name: torch.tensor(array, device=self.device) for name, array in arrays.items()},
        }

    # -- parts that rewards are made of

    def normalize(self, x: Tensor) -> Tensor:
        """Observations as the networks read them; any number of leading dimensions."""
        if self.obs_norm_type == "rms":
            statistics = self.statistics["observations"]
            mean = torch.as_tensor(statistics.mean, dtype=torch.float32, device=x.device)
            deviation = torch.as_tensor(np.sqrt(statistics.var + 1e-8), dtype=torch.float32, device=x.device)
            return ((x.float() - mean) / deviation).clamp(-5.0, 5.0)
        return x.float() / 255.0 if self.reader.gives_bytes else x.float()

    def scale(self, rewards: Tensor, sync: bool = True) -> Tensor:
        """Normalised and weighted rewards [time, env]; with ``sync`` they enter the running deviation first.

        The weight of a reward with its own value is that of its advantages, and is left out here.
        """
        if self.rwd_norm_type == "rms":
            if sync:
                self._count_rewards(rewards)
            rewards = rewards / float(np.sqrt(self.statistics["rewards"].var) + 1e-8)
        elif self.rwd_norm_type == "minmax":
            lowest, highest = rewards.min(), rewards.max()
            rewards = (rewards - lowest) / (highest - lowest).clamp(min=1e-8)
        return rewards if self.own_value else self.weight * rewards

    def _count_rewards(self, rewards: Tensor) -> None:
        gamma = self.discount if self.gamma is None else self.gamma
        if gamma is not None:
            sums = []
            for row in rewards:
                self.discounted_rewards = gamma * self.discounted_rewards + row
                sums.append(self.discounted_rewards)
            rewards = torch.stack(sums)
        self.statistics["rewards"].update(rewards.double().flatten().cpu().numpy())

    def transitions(self, samples: Samples) -> Transitions:
        """The samples, checked: keys, shapes [time, env, …], finite numbers."""
        _ = self.bound_to  # raises where the spaces are not known
        if missing := [key for key in SAMPLE_KEYS if key not in samples]:
            raise ValueError(f"samples lack {missing}; intrinsic rewards need {list(SAMPLE_KEYS)}")
        parts = {
            key: torch.as_tensor(samples[key], device=self.device)
            for key in ("actions", "rewards", "terminateds", "truncateds")
        }
        steps = parts["rewards"].shape[0] if parts["rewards"].dim() else 0
        lead = (steps, self.n_envs)
        for key in ("rewards", "terminateds", "truncateds"):
            check_shape(key, parts[key], lead)
        observations, next_observations = (
            self._read(key, samples[key], lead) for key in ("observations", "next_observations")
        )
        if steps == 0 or parts["actions"].numel() != steps * self.n_envs * self.action_dim:
            raise ValueError(
                f"actions of {self.action_space} in {steps} steps of {self.n_envs} environments have shape "
                f"{(*lead, *self.action_shape)}, got {tuple(parts['actions'].shape)}"
            )
        actions = parts["actions"].reshape(*lead, self.action_dim)
        self._check_actions(actions)
        ended = parts["terminateds"].bool() | parts["truncateds"].bool()
        valid = samples.get("valid")
        valid = torch.ones_like(ended) if valid is None else torch.as_tensor(valid, device=self.device).bool()
        return Transitions(observations, actions, next_observations, ended, valid)

    def _read(self, name: str, observations: TensorObservation, lead: tuple[int, int]) -> Tensor:
        values = self.reader.read(name, observations, lead, self.device)
        if values.is_floating_point() and not torch.isfinite(values).all():
            raise NonFiniteError(f"NaN or infinity in the {name} that an intrinsic reward is computed of")
        return values

    def split_actions(self, actions: Tensor) -> list[tuple[Space, Tensor]]:
        """[…, action column] as the parts of the action space with their columns."""
        columns = actions.split([get_action_dim(part) for part in self.action_parts], dim=-1)
        return list(zip(self.action_parts, columns, strict=True))

    def _check_actions(self, actions: Tensor) -> None:
        for space, columns in self.split_actions(actions):
            if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
                sizes = torch.as_tensor(space.nvec if isinstance(space, spaces.MultiDiscrete) else space.n)
                if bool(((columns < 0) | (columns >= sizes.to(self.device))).any()):
                    raise ValueError(f"actions of {space} count from 0; got {columns.min()} to {columns.max()}")

    # -- state

    def state_dict(self) -> dict[str, Any]:
        """All that :meth:`compute` depends on: numbers, arrays, tensors, and lists and dictionaries of them; copies."""
        return {
            "global_step": self.global_step,
            "discounted_rewards": self.discounted_rewards.clone(),
            "statistics": {
                name: {"mean": part.mean.copy(), "var": part.var.copy(), "count": float(part.count)}
                for name, part in self.statistics.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a reward of the same kind and size was when its :meth:`state_dict` was taken.

        With another number of environments, what belongs to each of them is reset, with a warning.
        """
        self.global_step = int(state["global_step"])
        if self._same_environments(state):
            self.discounted_rewards = state["discounted_rewards"].to(self.device).clone()
        else:
            warnings.warn(
                f"the intrinsic reward was saved with {len(state['discounted_rewards'])} environments, here are "
                f"{self.n_envs}: what it remembers of single episodes is left out",
                stacklevel=2,
            )
        for name, part in self.statistics.items():
            saved = state["statistics"][name]
            mean, var = np.array(saved["mean"], np.float64), np.array(saved["var"], np.float64)
            if mean.shape != part.mean.shape or var.shape != part.mean.shape:
                raise ValueError(f"the statistics of {name} have shape {mean.shape}, expected {part.mean.shape}")
            part.mean, part.var, part.count = mean, var, float(saved["count"])

    def _same_environments(self, state: Mapping[str, Any]) -> bool:
        return len(state["discounted_rewards"]) == self.n_envs


def total_reward(reward: IntrinsicReward, samples: Samples, sync: bool = True) -> Tensor:
    """One reward [time, env] for an agent: a mix that gives its parts one by one is summed, and the shape checked."""
    computed: Any = reward.compute(samples, sync)
    if isinstance(computed, list | tuple):
        computed = torch.stack(list(computed)).sum(dim=0)
    check_shape(f"rewards of {type(reward).__name__}", computed, tuple(samples["rewards"].shape))
    return computed
