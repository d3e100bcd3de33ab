"""RecurrentPPO's front door: PPO with the defaults that suit a policy with memory."""

from __future__ import annotations

from typing import Any, ClassVar

from proximo.agents.ppo import PPO
from proximo.data import Schedule
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.recurrent import RECURRENT_POLICY_ALIASES


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
        learning_rate: float | Schedule = 3e-4,
        n_steps: int = 128,
        batch_size: int = 128,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(policy, env, learning_rate, n_steps, batch_size, *args, **kwargs)

    def _resolve_policy(self, policy: str | type[ActorCriticPolicy]) -> type[ActorCriticPolicy]:
        resolved = super()._resolve_policy(policy)
        if not resolved.recurrent:
            raise ValueError(
                f"RecurrentPPO trains policies with memory, {policy if isinstance(policy, str) else policy.__name__!r} "
                f"has none: choose one of {', '.join(RECURRENT_POLICY_ALIASES)}, or PPO"
            )
        return resolved
