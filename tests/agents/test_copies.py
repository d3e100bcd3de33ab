"""``copy.deepcopy(model)`` and ``pickle``: a copy stands on its own and learns on as the original does."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import proximo
from proximo import make_vec_env
from proximo.envs import SubprocVecEnv, VecNormalize
from proximo.training.callbacks import CheckpointCallback
from proximo.training.loggers import configure

SMALL = {"n_steps": 32, "seed": 0, "device": "cpu", "policy_kwargs": {"net_arch": [8]}}
MODELS: dict[str, Callable[[], Any]] = {
    "PPO, fused": lambda: proximo.PPO("MlpPolicy", "CartPole-v1", batch_size=32, **SMALL),
    "PPO, torch": lambda: proximo.PPO("MlpPolicy", "Pendulum-v1", batch_size=32, backend="torch", **SMALL),
    "PPO, gSDE": lambda: proximo.PPO("MlpPolicy", "Pendulum-v1", batch_size=32, use_sde=True, **SMALL),
    "A2C": lambda: proximo.A2C("MlpPolicy", "CartPole-v1", **SMALL),
    "PPG": lambda: proximo.PPG("MlpPolicy", "CartPole-v1", batch_size=32, **SMALL),
    "TRPO": lambda: proximo.TRPO("MlpPolicy", "CartPole-v1", batch_size=32, **SMALL),
    "RecurrentPPO": lambda: proximo.RecurrentPPO("MlpLstmPolicy", "CartPole-v1", batch_size=32, **SMALL),
    "RND": lambda: proximo.PPO(
        "MlpPolicy", "CartPole-v1", batch_size=32, intrinsic_reward=proximo.exploration.RND(), **SMALL
    ),
}
WAYS = {"deepcopy": copy.deepcopy, "pickle": lambda model: pickle.loads(pickle.dumps(model))}


def weights(model: Any) -> torch.Tensor:
    return torch.cat([part.detach().flatten() for part in model.policy.parameters()])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_a_copy_learns_on_as_the_original(name: str, way: str) -> None:
    model = MODELS[name]()
    model.learn(64)
    twin = WAYS[way](model)
    before = weights(model)
    assert torch.equal(weights(twin), before)
    numbers = torch.get_rng_state()
    model.learn(64, reset_num_timesteps=False)
    assert torch.equal(weights(twin), before)  # it has memory of its own
    torch.set_rng_state(numbers)  # the one generator that all models share
    twin.learn(64, reset_num_timesteps=False)
    assert twin.num_timesteps == model.num_timesteps == 128
    assert torch.equal(weights(twin), weights(model))
    assert not torch.equal(weights(twin), before)
    assert twin.backend == model.backend


def test_a_copy_normalises_environments_of_its_own() -> None:
    env = VecNormalize(make_vec_env("Pendulum-v1", n_envs=2, seed=0))
    model = proximo.PPO("MlpPolicy", env, batch_size=32, **SMALL)
    model.learn(64)
    twin = copy.deepcopy(model)
    model.learn(64, reset_num_timesteps=False)
    assert env.ret_rms.count > twin.env.ret_rms.count
    twin.learn(64, reset_num_timesteps=False)
    assert torch.equal(weights(twin), weights(model))
    assert env.ret_rms.var == twin.env.ret_rms.var


def test_a_copy_logs_and_calls_nothing_of_the_original(tmp_path: Any) -> None:
    model = MODELS["PPO, fused"]()
    model.set_logger(configure(str(tmp_path / "log"), ["csv"]))
    model.learn(64, callback=CheckpointCallback(32, str(tmp_path / "checkpoints")))
    lines = (tmp_path / "log" / "progress.csv").read_text()
    copy.deepcopy(model).learn(64, reset_num_timesteps=False)
    assert (tmp_path / "log" / "progress.csv").read_text() == lines


@pytest.mark.parametrize("way", WAYS)
def test_environments_in_workers_are_not_copied_and_the_error_says_so(way: str) -> None:
    env = make_vec_env("CartPole-v1", 2, vec_env_cls=SubprocVecEnv)
    try:
        model = proximo.PPO("MlpPolicy", env, batch_size=32, **SMALL)
        with pytest.raises(TypeError, match="SubprocVecEnv has worker processes, which cannot be copied or pickled"):
            WAYS[way](model)
    finally:
        env.close()


def test_a_copied_policy_is_without_the_graph_of_its_last_batch() -> None:
    model = MODELS["PPO, torch"]()
    model.learn(32)
    model.policy.get_distribution(torch.zeros(1, 3))
    assert torch.equal(copy.deepcopy(model.policy).log_std, model.policy.log_std)
