"""Intrinsic rewards for the agents of the library, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from proximo.data import Observation, Rollout
from proximo.exploration.base import total_reward
from proximo.functional.spaces import obs_as_tensor


class IntrinsicReward:
    """Adds an intrinsic reward to a full rollout, before its advantages are estimated::

        model = PPO("MlpPolicy", env)
        model.reward_shaper = IntrinsicReward(RE3(envs=TorchVecEnv(env)))

    With ``pretraining`` the environment's own rewards are left out. What the reward has learned goes into checkpoints.
    """

    def __init__(self, reward: Any, pretraining: bool = False, device: torch.device | str = "cpu") -> None:
        self.reward = reward
        self.pretraining = pretraining
        self.device = torch.device(device)
        self.latest_mean = 0.0

    def __call__(self, rollout: Rollout, next_observations: Observation) -> None:
        if self.pretraining:
            rollout.rewards[:] = 0.0
        samples = self._samples(rollout, next_observations)
        if callable(watch := getattr(self.reward, "watch", None)):
            for step in range(rollout.steps):
                watch(**{key: part[step] for key, part in samples.items()})
        intrinsic = total_reward(self.reward, samples, sync=True).detach().cpu().numpy()
        rollout.rewards += intrinsic
        self.latest_mean = float(np.mean(intrinsic))

    def _samples(self, rollout: Rollout, next_observations: Observation) -> dict[str, Any]:
        """A rollout as intrinsic rewards read it: tensors [time, env, …]."""

        def tensor(array: Any) -> torch.Tensor:
            return torch.as_tensor(array, device=self.device)

        return {
            "observations": obs_as_tensor(rollout.observations, self.device),
            "actions": tensor(rollout.actions),
            "rewards": tensor(rollout.rewards),
            "terminateds": tensor(rollout.terminated).float(),
            "truncateds": tensor(rollout.truncated).float(),
            "next_observations": obs_as_tensor(next_observations, self.device),
        }

    def state_dict(self) -> Mapping[str, Any]:
        state: Mapping[str, Any] = self.reward.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.reward.load_state_dict(state)
