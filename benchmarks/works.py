"""The works that both libraries do: the same environments, hyperparameters and number of steps."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import torch

ZOO_CARTPOLE = {
    "n_steps": 32,
    "batch_size": 256,
    "gae_lambda": 0.8,
    "gamma": 0.98,
    "n_epochs": 20,
    "learning_rate": 1e-3,
    "clip_range": 0.2,
}
ZOO_ATARI = {
    "n_steps": 128,
    "batch_size": 256,
    "n_epochs": 4,
    "learning_rate": 2.5e-4,
    "clip_range": 0.1,
    "vf_coef": 0.5,
    "ent_coef": 0.01,
}
ZOO_BULLET = {
    "n_steps": 512,
    "batch_size": 128,
    "gamma": 0.99,
    "gae_lambda": 0.9,
    "n_epochs": 20,
    "use_sde": True,
    "sde_sample_freq": 4,
    "learning_rate": 3e-5,
    "clip_range": 0.4,
    "policy_kwargs": {
        "log_std_init": -2.0,
        "ortho_init": False,
        "activation_fn": torch.nn.ReLU,
        "net_arch": {"pi": [256, 256], "vf": [256, 256]},
    },
}
WIDE_RELU = {"net_arch": [256, 256], "activation_fn": torch.nn.ReLU}


@dataclass(frozen=True)
class Work:
    """One row of the table: something to do, and the ratio to the peer that it must reach."""

    name: str
    env_id: str
    n_envs: int
    steps: int
    required_ratio: float
    policy: str = "MlpPolicy"
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "PPO"
    contrib: bool = False  # the peer is sb3-contrib
    kind: str = "learn"  # "learn": steps/s end to end in learn(); "update": samples/s of train() alone
    normalize: bool = False
    vectorized: bool = False  # Proximo takes gymnasium's own vector environment
    workers: bool = False  # Proximo steps in worker processes; the peer with its better vector environment
    required_share_of_raw: float | None = None  # of the environment's own speed, on all cores with workers


WORKS = (
    Work("CartPole-v1, 4 envs, defaults", "CartPole-v1", 4, 24_576, 12.0),
    Work("CartPole-v1, 1 env, defaults", "CartPole-v1", 1, 8_192, 12.0),
    Work("CartPole-v1, zoo preset, 8 envs", "CartPole-v1", 8, 20_480, 8.0, hyperparameters=ZOO_CARTPOLE),
    Work("HalfCheetah-v5, 1 env, defaults", "HalfCheetah-v5", 1, 8_192, 4.0, required_share_of_raw=0.6),
    Work("update alone, batch 64, 64-64 Tanh", "CartPole-v1", 1, 2_048, 14.0, kind="update"),
    Work(
        "update alone, batch 128, 256-256 ReLU, Box",
        "HalfCheetah-v5",
        1,
        2_048,
        1.7,
        hyperparameters={"batch_size": 128, "policy_kwargs": WIDE_RELU},
        kind="update",
    ),
    Work("ALE/Pong-v5, CnnPolicy, zoo preset, 8 envs", "PongNoFrameskip-v4", 8, 4_096, 1.5, "CnnPolicy", ZOO_ATARI),
    Work(
        "CartPole-v1 vectorised by gymnasium, 64 envs",
        "CartPole-v1",
        64,
        16_384,
        15.0,
        hyperparameters={"n_steps": 128},
        vectorized=True,
    ),
    Work("A2C, CartPole-v1, 8 envs, defaults", "CartPole-v1", 8, 40_000, 4.0, algorithm="A2C"),
    Work(
        "RecurrentPPO, CartPole-v1, 8 envs, defaults",
        "CartPole-v1",
        8,
        2_048,
        5.0,
        "MlpLstmPolicy",
        algorithm="RecurrentPPO",
        contrib=True,
    ),
    Work(
        "MaskablePPO, InvalidActionEnvDiscrete(20), defaults",
        "InvalidActionEnvDiscrete",
        1,
        8_192,
        8.0,
        algorithm="MaskablePPO",
        contrib=True,
    ),
    Work(
        "PPO gSDE, HalfCheetahBulletEnv-v0, zoo preset, 16 envs",
        "HalfCheetahBulletEnv-v0",
        16,
        8_192,
        2.5,
        hyperparameters=ZOO_BULLET,
        normalize=True,
        workers=True,
        required_share_of_raw=0.5,
    ),
)


def register_environments(work: Work) -> None:
    """Make the ids of a work known to gymnasium, in whichever process."""
    if work.env_id.endswith("BulletEnv-v0"):
        importlib.import_module("pybullet_envs_gymnasium")
    if work.policy == "CnnPolicy":
        importlib.import_module("ale_py")


def single_env(work: Work) -> gym.Env[Any, Any]:
    """One environment of a work, without vectorising."""
    if work.env_id == "InvalidActionEnvDiscrete":
        from sb3_contrib.common.envs import InvalidActionEnvDiscrete

        # with dim=80 the environment's own action_masks() takes four fifths of a step
        return InvalidActionEnvDiscrete(dim=20, n_invalid_actions=10)
    register_environments(work)
    if work.policy == "CnnPolicy":
        from stable_baselines3.common.atari_wrappers import AtariWrapper

        return AtariWrapper(gym.make(work.env_id))
    return gym.make(work.env_id)


def make_env(work: Work, library: ModuleType, ours: bool, workers: bool) -> Any:
    """The environment of a work, made by the library that will use it."""
    vec_env = library.common.vec_env
    register_environments(work)
    if work.policy == "CnnPolicy":
        return vec_env.VecFrameStack(library.common.env_util.make_atari_env(work.env_id, work.n_envs, seed=0), 4)
    if work.vectorized and ours:
        return gym.make_vec(work.env_id, num_envs=work.n_envs, vectorization_mode="vector_entry_point")
    kind = vec_env.SubprocVecEnv if workers else vec_env.DummyVecEnv
    make = partial(single_env, work)
    env = library.common.env_util.make_vec_env(make, n_envs=work.n_envs, seed=0, vec_env_cls=kind)
    return vec_env.VecNormalize(env) if work.normalize else env


def prepare(work: Work, ours: bool, workers: bool = False) -> Callable[[], float]:
    """A function that does the work once and returns its speed in samples per second."""
    library = importlib.import_module("proximo.sb3" if ours else "stable_baselines3")
    for part in ("common.env_util", "common.vec_env"):
        importlib.import_module(f"{library.__name__}.{part}")
    algorithms = library
    if work.contrib:
        algorithms = importlib.import_module("proximo.sb3_contrib" if ours else "sb3_contrib")
    env = make_env(work, library, ours, workers)
    model = getattr(algorithms, work.algorithm)(work.policy, env, seed=0, device="cpu", **work.hyperparameters)
    if work.kind == "learn":
        return lambda: _learn_speed(model, work.steps)
    model.learn(work.steps)  # fills the buffer, and makes the logger that train() records to
    return lambda: _update_speed(model)


def _learn_speed(model: Any, steps: int) -> float:
    start = time.perf_counter()
    model.learn(steps)
    return model.num_timesteps / (time.perf_counter() - start)


def _update_speed(model: Any) -> float:
    start = time.perf_counter()
    model.train()
    return model.n_steps * model.n_envs * model.n_epochs / (time.perf_counter() - start)


def raw_speed_on_all_cores(work: Work) -> float:
    """The sum of one process per core, each with its share of the environments: what no library can exceed."""
    cores = os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    start_line = context.Barrier(cores)
    with ProcessPoolExecutor(cores, context, initializer=start_line.wait) as processes:
        return sum(processes.map(raw_speed, [work] * cores, [work.n_envs // cores] * cores))


def raw_speed(work: Work, n_envs: int = 1, seconds: float = 2.0) -> float:
    """Steps per second of environments one after the other under random actions in this process."""
    envs = [single_env(work) for _ in range(n_envs)]
    envs[0].action_space.seed(0)
    actions = [envs[0].action_space.sample() for _ in range(100)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        for action, env in product(actions, envs):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        count += len(actions) * n_envs
    for env in envs:
        env.close()
    return count / elapsed


def median(values: list[float]) -> float:
    return float(np.median(values))
