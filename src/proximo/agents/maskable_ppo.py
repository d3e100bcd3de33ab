"""MaskablePPO: PPO that asks the environments which actions are allowed."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch

from proximo.agents.arguments import constructor_arguments
from proximo.agents.on_policy import MaybeCallback, OnNonFinite, OnPolicyAlgorithm
from proximo.agents.ppo import PPO
from proximo.agents.together import Distributed
from proximo.augmentation import Augmentation
from proximo.backends.base import BackendChoice, Precision
from proximo.config import PPOConfig
from proximo.data import Schedule
from proximo.envs.vector.vec_env import VecEnv
from proximo.exploration import IntrinsicReward
from proximo.functional.actions import required_mask_groups
from proximo.learners.ppo import PPOLearner
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.maskable import MASKABLE_POLICY_ALIASES
from proximo.rollout.storage import RolloutBuffer
from proximo.training.callback_base import BaseCallback


class MaskablePPO(PPO):
    """PPO over allowed actions only.

    The environments say what is allowed in ``action_masks()``, their own or an ``ActionMasker``'s;
    ``PPO(…).learn(…, use_masking=True)`` does the same with any policy, recurrent ones and hybrid actions too.
    """

    run_name: ClassVar[str] = "MaskablePPO"
    masks_actions: ClassVar[bool] = True
    policy_aliases: ClassVar[Any] = {**PPO.policy_aliases, **MASKABLE_POLICY_ALIASES}

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: Any,
        learning_rate: float | Schedule | str = 3e-4,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: float | Schedule = 0.2,
        clip_range_vf: float | Schedule | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
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
        use_sde: bool = False,
        sde_sample_freq: int = -1,
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

    def _check_spaces(self) -> None:
        super()._check_spaces()
        required_mask_groups(self.action_space)

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
        use_masking: bool | None = None,
    ) -> bool:
        """Fill the buffer with one rollout; ``use_masking`` as in :meth:`learn`, None as it is."""
        if use_masking is not None:
            self._mask_actions(use_masking)
        return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)

    def learn(  # type: ignore[override] # sb3-contrib has the last two arguments in this order
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 1,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        use_masking: bool = True,
        progress_bar: bool = False,
        on_non_finite: OnNonFinite = "raise",
    ) -> Self:
        return super().learn(
            total_timesteps,
            callback,
            log_interval,
            tb_log_name,
            reset_num_timesteps,
            progress_bar,
            use_masking,
            on_non_finite,
        )
