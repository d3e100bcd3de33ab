"""The environment's side of an agent: which one it trains on, and where it stands in the episodes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from proximo.agents.checks import check_policy_reads_observations, check_spaces
from proximo.agents.together import TogetherSide, share_statistics
from proximo.data import Array, Info, Observation
from proximo.envs import VecEnv, VecNormalize, as_vec_env, unwrap_vec_normalize
from proximo.envs.adapters.foreign import without_adapter
from proximo.envs.vector.normalize import (
    has_seen_nothing,
    load_normalizer_state,
    normalizer_settings,
    normalizer_state,
    normalizers,
)
from proximo.errors import ArgumentValueError
from proximo.functional.spaces import check_for_correct_spaces
from proximo.networks.actor_critic import POLICY_ALIASES, ActorCriticPolicy
from proximo.rollout.collector import Collector


class EnvironmentSide(TogetherSide):
    """Holds the vector environment and the collector that steps it."""

    policy_aliases: ClassVar[Mapping[str, type[ActorCriticPolicy]]]
    _rewards_are_shaped = False  # by the library's ``collect_rollouts``

    def _take_env(self, env: VecEnv) -> None:
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._check_spaces()
        exchange = self._joined(env)
        self.n_envs = env.num_envs if exchange is None else exchange.share.total
        self.env = without_adapter(env)
        self._collector = Collector(env, self.ep_info_buffer, self.ep_success_buffer)
        self._collector.exchange = exchange
        if (normalizer := self.get_vec_normalize_env()) is not None:
            if self._loaded_statistics is not None and has_seen_nothing(normalizer):
                load_normalizer_state(normalizer, self._loaded_statistics)
            self._loaded_statistics = self._loaded_settings = None  # from here on they are the environment's
        if exchange is not None:
            share_statistics(env, exchange)

    def _check_spaces(self) -> None:
        check_spaces(self.observation_space, self.action_space, self.use_sde)
        known = {**POLICY_ALIASES, **self.policy_aliases}
        check_policy_reads_observations(self.policy_class, known, self.observation_space, self.policy_kwargs)

    def get_env(self) -> VecEnv | None:
        """The vector environment; one of Stable-Baselines3's as it was given."""
        return self.env

    def get_vec_normalize_env(self) -> VecNormalize | None:
        return None if self.env is None else unwrap_vec_normalize(self.env)

    def normalizer_statistics(self) -> dict[str, Array] | None:
        """Of the environment's ``VecNormalize``; without one, those that the model's file held for an env to come."""
        normalizer = self.get_vec_normalize_env()
        return self._loaded_statistics if normalizer is None else normalizer_state(normalizer)

    def normalizer_settings(self) -> dict[str, Any] | None:
        """The arguments of that ``VecNormalize``; None where there is none, or an old file does not tell them."""
        normalizer = self.get_vec_normalize_env()
        return self._loaded_settings if normalizer is None else normalizer_settings(normalizer)

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Train on another environment of the same spaces and number."""
        wrapped = as_vec_env(env, monitor=self._monitor_wrapper, verbose=self.verbose)
        exchange = self._exchange
        expected = self.n_envs if exchange is None else exchange.share.count
        if wrapped.num_envs != expected:
            raise ArgumentValueError(
                f"the model was made for {expected} environments, this one has {wrapped.num_envs}; to change the "
                f"number, save the model and call {type(self).__name__}.load(path, env=env)"
            )
        check_for_correct_spaces(wrapped, self.observation_space, self.action_space)
        previous = self._collector
        self._take_env(wrapped)
        if exchange is not None and self._exchange is not None:
            self._exchange.checksum = exchange.checksum
        if not force_reset and previous is not None and self._collector is not None:
            self._collector.observations = previous.observations
            self._collector.episode_starts = previous.episode_starts

    def _required_collector(self) -> Collector:
        if self._collector is None:
            raise ArgumentValueError(
                "the model has no environment; call set_env(env), or pass env= to load(), before learn()"
            )
        return self._collector

    def _complete_own_collection(self) -> None:
        """End the rollout of a ``collect_rollouts`` of the user's; say, once, that the intrinsic reward is left out."""
        if self.runtime.group is None:  # processes that train together refuse such a collection
            for normalizer in normalizers(self.env):
                normalizer.end_rollout()  # the library's own has left nothing to do
        if self.intrinsic_reward is None or self._rewards_are_shaped:
            return
        self._rewards_are_shaped = True  # as far as anybody wants to know
        warnings.warn(
            f"{type(self).collect_rollouts.__qualname__} does not call super().collect_rollouts(), so the intrinsic "
            f"reward {type(self.intrinsic_reward).__name__} is not added and does not learn; call it, or leave "
            "intrinsic_reward out",
            stacklevel=2,
        )

    # what subclasses with a ``collect_rollouts`` of their own read and write: the collector's place in the episodes

    @property
    def _last_obs(self) -> Observation | None:
        return None if self._collector is None else self._collector.observations

    @_last_obs.setter
    def _last_obs(self, observations: Observation | None) -> None:
        self._required_collector().observations = observations

    @property
    def _last_episode_starts(self) -> Array | None:
        return None if self._collector is None else self._collector.episode_starts

    @_last_episode_starts.setter
    def _last_episode_starts(self, episode_starts: Array) -> None:
        self._required_collector().episode_starts = np.asarray(episode_starts, np.bool_)

    def _update_info_buffer(self, infos: Sequence[Info], dones: Array | None = None) -> None:
        """Count the episodes that ended, from the infos of a vector step."""
        ended = np.zeros(len(infos), np.bool_) if dones is None else dones
        self._required_collector().count_episodes(dict(enumerate(infos)), ended)
