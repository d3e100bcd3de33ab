"""A training with an intrinsic reward goes on exactly from a checkpoint: the reward's own networks are in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from proximo import PPO, make_vec_env
from proximo.envs.adapters.torch_vec_env import TorchVecEnv
from proximo.exploration.shaping import IntrinsicReward
from proximo.rllte.xplore import reward
from proximo.training.checkpoints import CheckpointFolder, PeriodicCheckpoints

STEPS = 64


def shaped(model: Any, name: str) -> Any:
    torch.manual_seed(5)
    model.reward_shaper = IntrinsicReward(getattr(reward, name)(envs=TorchVecEnv(model.get_env())), pretraining=True)
    return model


def make(name: str) -> Any:
    env = make_vec_env("CartPole-v1", n_envs=2, seed=1)
    return shaped(PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=2, seed=2, device="cpu"), name)


def weights(model: Any) -> torch.Tensor:
    return torch.cat([value.flatten() for value in model.policy.state_dict().values()])


@pytest.mark.parametrize("name", ["RE3", "RND", "ICM", "NGU"])
def test_a_resumed_training_equals_the_uninterrupted_one(name: str, tmp_path: Path) -> None:
    whole = make(name).learn(4 * STEPS)
    plain = PPO(
        "MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=1), n_steps=32, batch_size=32, n_epochs=2, seed=2
    )
    assert not torch.equal(weights(whole), weights(plain.learn(4 * STEPS)))  # the reward does something

    class Enough(PeriodicCheckpoints):
        def _between_iterations(self) -> bool:
            return super()._between_iterations() and self.num_timesteps < 2 * STEPS

    make(name).learn(4 * STEPS, callback=Enough(tmp_path, every_steps=STEPS))
    newest = CheckpointFolder(tmp_path).newest()
    resumed = PPO.load(newest, env=make_vec_env("CartPole-v1", n_envs=2, seed=77), device="cpu")
    torch.manual_seed(99)  # whatever a new reward begins with is replaced
    model = shaped(resumed, name)
    model.resume()
    assert model.num_timesteps == whole.num_timesteps == 4 * STEPS
    assert torch.equal(weights(model), weights(whole))
