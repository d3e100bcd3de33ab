"""What the collector asks of a backend."""

from __future__ import annotations

from typing import Protocol

from proximo.data import Array, Observation, RNNStates, Rollout


class Backend(Protocol):
    """Runs a policy's network over the policy's own memory."""

    description: str  # "fused", or "torch: " and why
    states: RNNStates | None  # what a policy with memory remembers of the current episodes

    def is_current(self) -> bool:
        """Whether the policy is still as it was bound; if not, a new backend is due."""

    def start_rollout(self, steps: int, environments: int) -> None:
        """Prepare for ``steps`` calls of :meth:`act` (evaluation mode, random numbers)."""

    def act(self, observations: Observation, rollout: Rollout, step: int) -> Array:
        """Sample actions for [env, …] observations into row ``step`` of actions, values and log-probabilities.

        Episode starts and, if there are any, action masks of this step are in the rollout already. Returns the actions
        as the environment takes them: [env, …], continuous ones within bounds.
        """

    def values(
        self, observations: Observation, environment: int | None = None, episode_starts: Array | None = None
    ) -> Array:
        """V for [batch, …] observations: [batch] float32.

        For a policy with memory: the observation is one of ``environment``'s current episode, or one of each
        environment, new episodes starting where ``episode_starts`` [env] says.
        """
