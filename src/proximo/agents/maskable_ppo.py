"""MaskablePPO's front door: PPO that asks the environments which actions are allowed."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from proximo.agents.on_policy import MaybeCallback, OnNonFinite
from proximo.agents.ppo import PPO
from proximo.networks.maskable import MASKABLE_POLICY_ALIASES
from proximo.rollout.masks import required_mask_groups


class MaskablePPO(PPO):
    """PPO over allowed actions only.

    The environments say what is allowed in ``action_masks()``, their own or an ``ActionMasker``'s;
    ``PPO(…).learn(…, use_masking=True)`` does the same with any policy, recurrent ones and hybrid actions too.
    """

    run_name: ClassVar[str] = "MaskablePPO"
    policy_aliases: ClassVar[Any] = {**PPO.policy_aliases, **MASKABLE_POLICY_ALIASES}

    def _check_spaces(self) -> None:
        super()._check_spaces()
        required_mask_groups(self.action_space)

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
