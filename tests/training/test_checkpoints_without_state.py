"""Checkpoints of environments that cannot give their state: saved all the same, and what that means is said."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from proximo import PPO, make_vec_env
from proximo.envs import VecNormalize
from proximo.errors import EnvironmentStateError, NotExactError
from proximo.training.checkpoints import CheckpointFolder, PeriodicCheckpoints

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "seed": 3}


class Walk(gym.Env[Any, Any]):
    """A random walk that knows nothing of states."""

    observation_space = gym.spaces.Box(-20.0, 20.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.normal(size=1).astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        return self.np_random.normal(size=1).astype(np.float32), float(action), False, self.steps == 9, {}


def environments():
    return VecNormalize(make_vec_env(Walk, 2, seed=1))


def weights(model):
    return torch.cat([value.flatten() for value in model.policy.state_dict().values()]).clone()


def moments(model):
    state = model.policy.optimizer.state_dict()["state"]
    return [value for _, entry in sorted(state.items()) for _, value in sorted(entry.items())]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    model = PPO("MlpPolicy", environments(), **SMALL)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.learn(128, callback=PeriodicCheckpoints(folder, every_steps=32, keep_last=9, keep_best=False))
    return folder, model, [str(warning.message) for warning in said if "checkpoints hold" in str(warning.message)]


def test_such_a_training_is_saved_and_says_once_what_is_left_out(saved):
    folder, _, said = saved
    assert len(said) == 1
    assert "Walk" in said[0]
    assert "A resume resets them and is not exact" in said[0]
    assert [path.name for path in CheckpointFolder(folder).all()] == [
        f"model_{steps}_steps.zip" for steps in (0, 32, 64, 96, 128)
    ]


def test_everything_else_goes_on_and_the_resume_says_that_the_environments_were_reset(saved):
    folder, straight, _ = saved
    model = PPO.load(folder / "model_128_steps.zip", env=environments())
    assert torch.equal(weights(model), weights(straight))
    assert all(torch.equal(one, other) for one, other in zip(moments(model), moments(straight), strict=True))
    with pytest.warns(UserWarning, match=r"not bit for bit.*holds no state of the environments.*are reset"):
        model.learn(0, reset_num_timesteps=False)
    assert (model.num_timesteps, model._iteration, model._n_updates) == (128, 4, 8)
    assert model.generator.bit_generator.state == straight.generator.bit_generator.state
    here, there = model.get_vec_normalize_env(), straight.get_vec_normalize_env()
    assert here.obs_rms.count == there.obs_rms.count + 2  # the observations of the reset
    assert [episode["r"] for episode in model.ep_info_buffer] == [episode["r"] for episode in straight.ep_info_buffer]
    assert model._last_episode_starts.all()
    model.learn(64, reset_num_timesteps=False)
    assert model.num_timesteps == 192
    assert not torch.equal(weights(model), weights(straight))


def test_two_resumes_of_one_checkpoint_are_the_same_training(saved):
    folder, _, _ = saved
    found = []
    for _ in range(2):
        model = PPO.load(folder / "model_64_steps.zip", env=environments())
        with pytest.warns(UserWarning, match="are reset"):
            found.append(weights(model.resume()))
    assert torch.equal(*found)


def test_episodes_after_a_resume_are_not_those_of_the_start(saved):
    folder, _, _ = saved
    first = environments().reset()
    model = PPO.load(folder / "model_64_steps.zip", env=environments())
    with pytest.warns(UserWarning, match="are reset"):
        model.learn(0, reset_num_timesteps=False)
    assert not np.array_equal(model.get_vec_normalize_env().get_original_obs(), first)


def test_strict_and_exact_refuse(saved, tmp_path):
    folder, _, _ = saved
    with pytest.raises(NotExactError, match=r"an exact resume is not possible: .*holds no state of the environments"):
        PPO.load(folder / "model_64_steps.zip", env=environments()).resume(strict=True)
    model = PPO("MlpPolicy", make_vec_env(Walk, 2, seed=1), **SMALL)
    with pytest.raises(EnvironmentStateError, match=r"exact checkpoints are not possible: .*Walk.*boundary mode"):
        model.learn(64, callback=PeriodicCheckpoints(tmp_path / "c", exact=True))
    assert (model.num_timesteps, (tmp_path / "c").exists()) == (0, False)
