"""DAAC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from proximo.agents.arguments import constructor_arguments
from proximo.agents.checks import checked_twin
from proximo.agents.on_policy import OnPolicyAlgorithm
from proximo.agents.ppo import PPO
from proximo.agents.together import Distributed
from proximo.augmentation import Augmentation
from proximo.backends.base import BackendChoice, Precision
from proximo.config import DAACConfig
from proximo.data import Schedule
from proximo.exploration import IntrinsicReward
from proximo.learners.daac import DAACLearner
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.decoupled import DECOUPLED_POLICY_ALIASES, DECOUPLED_TWINS, DecoupledPolicy
from proximo.networks.recurrent import RECURRENT_POLICY_ALIASES
from proximo.rollout.storage import RolloutBuffer


class DAAC(PPO):
    """Decoupled advantage actor-critic (https://arxiv.org/abs/2102.10330): a policy that shares nothing with its value.

    Each rollout trains the policy for ``n_epochs``, and every ``value_frequency`` rollouts the value for
    ``value_epochs``; the policy's network learns of returns by telling the advantages of actions.

    >>> model = DAAC("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, seed=0).learn(128)
    >>> model.num_timesteps, model.backend
    (128, 'torch: DAAC trains policy and value apart')
    """

    config_class: ClassVar[type[DAACConfig]] = DAACConfig
    default_learner_class: ClassVar[type[Any]] = DAACLearner
    run_name: ClassVar[str] = "DAAC"
    one_value: ClassVar[str | None] = "its policy learns one advantage"
    policy_aliases: ClassVar[Mapping[str, type[ActorCriticPolicy]]] = {
        **DECOUPLED_POLICY_ALIASES,
        **RECURRENT_POLICY_ALIASES,  # known, to be refused in clear words
    }

    learner: DAACLearner
    value_epochs: int
    value_frequency: int
    adv_coef: float

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: Any,
        learning_rate: float | Schedule | str = 5e-4,
        n_steps: int = 256,
        batch_size: int = 256,
        n_epochs: int = 1,
        value_epochs: int = 9,
        value_frequency: int = 1,
        adv_coef: float = 0.25,
        gamma: float = 0.999,
        gae_lambda: float = 0.95,
        clip_range: float | Schedule = 0.2,
        clip_range_vf: float | Schedule | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.01,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: type[RolloutBuffer] | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
        target_kl: float | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        _init_setup_model: bool = True,
        *,
        backend: BackendChoice = "auto",
        precision: Precision = "float32",
        learner_class: type[DAACLearner] | None = None,
        intrinsic_reward: IntrinsicReward | None = None,
        augmentation: Augmentation | None = None,
        aug_coef: float = 0.1,
        distributed: Distributed = True,
        normalize_returns: bool = False,
    ) -> None:
        OnPolicyAlgorithm.__init__(self, **constructor_arguments(locals(), DAACConfig))

    def _resolve_policy(self, policy: str | type[ActorCriticPolicy]) -> type[ActorCriticPolicy]:
        resolved = super()._resolve_policy(policy)
        return checked_twin(
            "DAAC", policy, resolved, DECOUPLED_TWINS, DecoupledPolicy, "policy and value must share nothing"
        )

    def _sharding_obstacle(self) -> str | None:
        return super()._sharding_obstacle() or "DAAC learns from all rows"

    def _own_tensors(self) -> dict[str, torch.Tensor]:
        return {**super()._own_tensors(), "updates": torch.tensor(self.learner.updates)}

    def _load_algorithm_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.learner.updates = int(tensors["updates"])

    def train(self) -> None:
        """Update policy and value from the rollout buffer."""
        decoupled: Any = self.configuration().at(self._current_progress_remaining)
        self._record(self.learner.update(self.rollout_buffer, self._settings(), decoupled), updates=self.n_epochs)
