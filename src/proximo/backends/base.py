"""What the collector asks of a backend."""

from __future__ import annotations

from typing import Protocol

from proximo.data import Array, Observation, Rollout


class Backend(Protocol):
    """Runs a policy's network over the policy's own memory."""

    description: str  # "fused", or "torch: " and why

    def start_rollout(self, steps: int, environments: int) -> None:
        """Prepare for ``steps`` calls of :meth:`act` (evaluation mode, random numbers)."""

    def act(self, observations: Observation, rollout: Rollout, step: int) -> Array:
        """Sample actions for [env, …] observations into row ``step`` of actions, values and log-probabilities.

        Returns the actions as the environment takes them: [env, …], continuous ones within bounds.
        """

    def values(self, observations: Observation) -> Array:
        """V for [batch, …] observations: [batch] float32."""
