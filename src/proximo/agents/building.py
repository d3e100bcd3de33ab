"""What a model is built of: policy, learner and rollout buffer, an intrinsic reward and an augmentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from proximo.agents.attributes import AgentAttributes
from proximo.agents.checks import (
    check_mirror,
    check_second_value,
    checked_learner_class,
)
from proximo.augmentation import Mirror, check_augmentation
from proximo.config import ActorCriticConfig
from proximo.errors import near_matches
from proximo.files.known_values import own_class
from proximo.networks.actor_critic import POLICY_ALIASES, ActorCriticPolicy
from proximo.networks.recurrent import RECURRENT_POLICY_ALIASES
from proximo.rollout.adapted_storage import AdaptedRolloutBuffer
from proximo.rollout.minibatches import longest_sequence
from proximo.rollout.storage import RolloutBuffer, allocate_stream


class BuildingSide(AgentAttributes):
    """Makes the parts of a model from the classes and arguments that it was given."""

    policy_aliases: ClassVar[Mapping[str, type[ActorCriticPolicy]]] = {**POLICY_ALIASES, **RECURRENT_POLICY_ALIASES}
    one_value: ClassVar[str | None] = None  # why an intrinsic reward can have no value of its own

    def _resolve_policy(self, policy: str | type[ActorCriticPolicy]) -> type[ActorCriticPolicy]:
        if isinstance(policy, str):
            if policy not in self.policy_aliases:
                raise ValueError(f"unknown policy {policy!r}; {near_matches(policy, self.policy_aliases)}")
            return self.policy_aliases[policy]
        policy = own_class(policy)
        if not (isinstance(policy, type) and issubclass(policy, ActorCriticPolicy)):
            raise TypeError(
                f"policy is {policy!r}; expected one of {', '.join(self.policy_aliases)} or a subclass of "
                "proximo.networks.ActorCriticPolicy (proximo.sb3.common.policies names it too)"
            )
        return policy

    def _make_policy(self) -> ActorCriticPolicy:
        arguments = self.policy_arguments()
        spaces = arguments.pop("observation_space"), arguments.pop("action_space")  # a user's class may rename them
        return self.policy_class(*spaces, self.lr_schedule, **arguments)

    def policy_arguments(self) -> dict[str, Any]:
        """What the policy is built with, besides the learning rate."""
        own_value = self.intrinsic_reward is not None and self.intrinsic_reward.own_value
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "use_sde": self.use_sde,
            **self.policy_kwargs,
            **({"value_heads": 2} if own_value else {}),
        }

    def _bind_intrinsic_reward(self) -> None:
        reward = self.intrinsic_reward
        if reward is None:
            return
        if reward.own_value and self.one_value is not None:
            raise ValueError(
                f"{self.run_name} cannot give an intrinsic reward a value of its own: {self.one_value}; leave "
                "own_value out, or use PPO"
            )
        reward.bind(self.observation_space, self.action_space, self.n_envs, self.device)
        if reward.own_value:
            check_second_value(self.policy, self.rollout_buffer, type(reward).__name__)
            self._allocate_own_stream(self.rollout_buffer)

    def _allocate_own_stream(self, buffer: RolloutBuffer) -> None:
        if self.intrinsic_reward is not None and self.intrinsic_reward.own_value:
            buffer.rollout.own_stream = allocate_stream(self.n_steps, buffer.n_envs)

    def _bind_augmentation(self) -> None:
        if isinstance(self.augmentation, Mirror):
            check_mirror(self, self.augmentation)
            self.learner.augmentation = self.augmentation
        elif self.augmentation is not None:
            check_augmentation(self.augmentation, self.observation_space)
            self.learner.augmentation = self.augmentation
        elif (coefficient := getattr(self, "aug_coef", None)) not in (None, ActorCriticConfig.aug_coef):
            raise ValueError(
                f"aug_coef is {coefficient}, but there is no augmentation whose terms it could weigh; give "
                "augmentation=RandomShift(), say, or leave aug_coef out"
            )

    def _make_learner(self) -> Any:
        return checked_learner_class(self.learner_class, self.default_learner_class)(self.runtime)

    def _make_buffer(
        self, environments: int | None = None, buffer_class: type[RolloutBuffer] | None = None
    ) -> RolloutBuffer:
        kind = buffer_class or self.rollout_buffer_class
        buffer = kind(
            self.n_steps,
            self.observation_space,
            self.action_space,
            device=self.device,
            gae_lambda=self.gae_lambda,
            gamma=self.gamma,
            n_envs=self.n_envs if environments is None else environments,
            **(self.rollout_buffer_kwargs if buffer_class is None else {}),
        )
        if not isinstance(buffer, RolloutBuffer):
            buffer = AdaptedRolloutBuffer(buffer)
        if self.policy_class.recurrent:
            buffer.rollout.sequence_length = self._sequence_length()
        return buffer

    def _sequence_length(self) -> int:
        """Steps per training sequence of a policy with memory."""
        batch_size = getattr(self, "batch_size", self.n_steps)
        for name, value in {"n_steps": self.n_steps, "batch_size": batch_size}.items():
            if value < 2:
                raise ValueError(
                    f"a policy with memory trains on sequences, but {name} is {value}; choose 2 or more, such as 128"
                )
        return longest_sequence(self.n_steps, batch_size)
