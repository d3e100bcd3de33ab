"""Learners, storages and folders for the tests of ``proximo.hsuanwu``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from proximo.hsuanwu.xploit.learner import PPGLearner
from proximo.hsuanwu.xploit.storage import VanillaRolloutStorage

VECTOR = {"shape": (4,)}
TWO_ACTIONS = {"shape": (2,), "type": "Discrete", "range": [0, 1]}
BOX_ACTIONS = {"shape": (3,), "type": "Box", "range": [-1.0, 1.0]}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every training writes its logs below the current folder."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    return tmp_path


@pytest.fixture
def make_learner() -> Callable[..., PPGLearner]:
    def make(observation_space: Any = VECTOR, action_space: Any = TWO_ACTIONS, **options: Any) -> PPGLearner:
        small = {"feature_dim": 16, "hidden_dim": 16, "num_policy_mini_batch": 2, "policy_epochs": 3}
        return PPGLearner(observation_space, action_space, "cpu", **small | options)

    return make


@pytest.fixture
def fill() -> Callable[..., VanillaRolloutStorage]:
    """A storage of random transitions in which the learner acted."""

    def filled(learner: PPGLearner, num_steps: int = 8, num_envs: int = 2, **options: Any) -> VanillaRolloutStorage:
        shape, kind = learner.observation_space.shape, type(learner.action_space).__name__
        action_shape = (int(learner.action_space.n),) if kind == "Discrete" else learner.action_space.shape
        storage = VanillaRolloutStorage("cpu", shape, action_shape, kind, num_steps, num_envs, **options)
        for _ in range(num_steps):
            obs = torch.randn(num_envs, *shape)
            if len(shape) == 3:
                obs = torch.randint(0, 256, (num_envs, *shape), dtype=torch.uint8)
            actions, extra = learner.act(obs)
            storage.add(
                obs, actions, torch.randn(num_envs, 1), torch.zeros(num_envs, 1), torch.zeros(num_envs, 1), **extra
            )
        storage.compute_returns_and_advantages(learner.get_value(obs).detach())
        return storage

    return filled
