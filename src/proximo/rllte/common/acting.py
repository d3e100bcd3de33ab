"""Acting with a policy of the user's own, which is not one of the library's networks."""

from __future__ import annotations

import numpy as np
import torch

from proximo.data import Array, Observation, RNNStates, Rollout
from proximo.functional.spaces import obs_as_tensor
from proximo.functional.statistics import check_finite_row
from proximo.rllte.xploit.policy.base import BasePolicy


class PlainPolicyBackend:
    """What the collector asks of a backend, by rllte's calls alone."""

    states: RNNStates | None = None  # rllte's policies have no memory

    def __init__(self, policy: BasePolicy) -> None:
        self.policy = policy
        self.description = f"torch: policy is {type(policy).__name__}"

    def is_current(self) -> bool:
        return True  # it is bound to nothing

    def start_rollout(self, steps: int, environments: int) -> None:
        self.policy.eval()

    @torch.no_grad()
    def act(self, observations: Observation, rollout: Rollout, step: int) -> Array:
        check_finite_row("observation", observations, step)
        actions, extra = self.policy(obs_as_tensor(observations, self.policy.device), training=True)
        missing = {"values", "log_probs"} - extra.keys()
        if missing:
            raise ValueError(
                f"{type(self.policy).__name__}'s forward() must give values and log_probs beside the actions; "
                f"{', '.join(sorted(missing))} missing"
            )
        rollout.values[step] = extra["values"].flatten().cpu().numpy()
        rollout.log_probs[step] = extra["log_probs"].flatten().cpu().numpy()
        chosen = actions.cpu().numpy()
        rollout.actions[step] = chosen.reshape(rollout.actions.shape[1:])
        return self.policy.bound_actions(chosen)

    @torch.no_grad()
    def values(
        self, observations: Observation, environment: int | None = None, episode_starts: Array | None = None
    ) -> Array:
        values = self.policy.get_value(obs_as_tensor(observations, self.policy.device))
        return values.flatten().cpu().numpy().astype(np.float32)
