"""RecurrentPPO: PPO with the defaults that suit a policy with memory."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from proximo.agents.arguments import constructor_arguments
from proximo.agents.on_policy import OnPolicyAlgorithm
from proximo.agents.ppo import PPO
from proximo.agents.together import Distributed
from proximo.augmentation import Augmentation
from proximo.backends.base import BackendChoice, Precision
from proximo.config import PPOConfig
from proximo.data import RNNStates, Schedule
from proximo.exploration import IntrinsicReward
from proximo.learners.ppo import PPOLearner
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.recurrent import RECURRENT_POLICY_ALIASES
from proximo.rollout.storage import RolloutBuffer


class RecurrentPPO(PPO):
    """PPO for policies with memory, with sb3-contrib's defaults; ``PPO("MlpLstmPolicy", …)`` is the same otherwise.

    >>> model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=16, batch_size=16, n_epochs=1, seed=0).learn(16)
    >>> action, state = model.predict(model.get_env().reset())
    >>> [part.shape for part in state]
    [(1, 1, 256), (1, 1, 256)]
    """

    run_name: ClassVar[str] = "RecurrentPPO"

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: Any,
        learning_rate: float | Schedule | str = 3e-4,
        n_steps: int = 128,
        batch_size: int = 128,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: float | Schedule = 0.2,
        clip_range_vf: float | Schedule | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        target_kl: float | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        _init_setup_model: bool = True,
        *,
        rollout_buffer_class: type[RolloutBuffer] | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
        backend: BackendChoice = "auto",
        precision: Precision = "float32",
        learner_class: type[PPOLearner] | None = None,
        intrinsic_reward: IntrinsicReward | None = None,
        augmentation: Augmentation | None = None,
        aug_coef: float = 0.1,
        distributed: Distributed = True,
        normalize_returns: bool = False,
    ) -> None:
        OnPolicyAlgorithm.__init__(self, **constructor_arguments(locals(), PPOConfig))

    @property
    def _last_lstm_states(self) -> RNNStates | None:
        """What the policy remembers of the current episodes, by the name that sb3-contrib's subclasses know."""
        return self.runtime.states

    @_last_lstm_states.setter
    def _last_lstm_states(self, states: RNNStates | None) -> None:
        self.runtime.states = states

    def _resolve_policy(self, policy: str | type[ActorCriticPolicy]) -> type[ActorCriticPolicy]:
        resolved = super()._resolve_policy(policy)
        if not resolved.recurrent:
            raise ValueError(
                f"RecurrentPPO trains policies with memory, {policy if isinstance(policy, str) else policy.__name__!r} "
                f"has none: choose one of {', '.join(RECURRENT_POLICY_ALIASES)}, or PPO"
            )
        return resolved
