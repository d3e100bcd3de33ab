"""A ``collect_rollouts`` of the user's and an intrinsic reward: what is left out is said."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from proximo import PPO
from proximo.exploration import RND
from proximo.functional.spaces import obs_as_tensor

SMALL = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "seed": 0}


class OwnCollection(PPO):
    """As scripts for Stable-Baselines3 have it, without a word of intrinsic rewards."""

    def collect_rollouts(self, env: Any, callback: Any, rollout_buffer: Any, n_rollout_steps: int) -> bool:
        rollout_buffer.reset()
        callback.on_rollout_start()
        for _ in range(n_rollout_steps):
            with torch.no_grad():
                actions, values, log_probs = self.policy(obs_as_tensor(self._last_obs, self.device))
            observations, rewards, dones, infos = env.step(actions.numpy())
            self.num_timesteps += env.num_envs
            self._update_info_buffer(infos, dones)
            rollout_buffer.add(
                self._last_obs, actions.numpy().reshape(-1, 1), rewards, self._last_episode_starts, values, log_probs
            )
            self._last_obs, self._last_episode_starts = observations, dones
        with torch.no_grad():
            values = self.policy.predict_values(obs_as_tensor(observations, self.device))
        rollout_buffer.compute_returns_and_advantage(last_values=values, dones=dones)
        callback.on_rollout_end()
        return True


class Calling(PPO):
    def collect_rollouts(self, *arguments: Any) -> bool:
        return super().collect_rollouts(*arguments)


def test_leaving_out_the_intrinsic_reward_is_said_once_by_name() -> None:
    model = OwnCollection("MlpPolicy", "CartPole-v1", intrinsic_reward=RND(), **SMALL)
    with pytest.warns(UserWarning, match=r"OwnCollection\.collect_rollouts does not call super.*RND is not") as said:
        model.learn(64)
    assert len([each for each in said if "collect_rollouts" in str(each.message)]) == 1


@pytest.mark.parametrize(
    ("kind", "reward"), [(Calling, RND), (PPO, RND), (OwnCollection, lambda: None)], ids=["calls", "plain", "no reward"]
)
def test_nothing_is_said_where_nothing_is_left_out(kind: Any, reward: Any) -> None:
    model = kind("MlpPolicy", "CartPole-v1", intrinsic_reward=reward(), **SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.learn(32)
