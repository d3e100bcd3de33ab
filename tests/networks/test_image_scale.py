"""The brightest pixel arrives as 1 at every published encoder, whoever's policy it stands in: one division by 255."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from proximo import PPO
from proximo.envs import DummyVecEnv
from proximo.envs.adapters.torch_vec_env import TorchVecEnv
from proximo.hsuanwu.common.engine import OnPolicyTrainer
from proximo.networks import published_encoders
from proximo.rllte.agent import PPO as RlltePPO
from proximo.rllte.xploit import encoder as rllte_encoders

IMAGE = spaces.Box(0, 255, (3, 40, 40), np.uint8)
BRIGHTEST = {"MnihCnnEncoder": 1.0, "PathakCnnEncoder": 1.0, "EspeholtResidualEncoder": 1.0, "TassaCnnEncoder": 0.5}


class White(gym.Env[Any, Any]):
    """Every pixel is 255."""

    action_space = spaces.Discrete(2)

    def __init__(self, dictionary: bool = False) -> None:
        self.dictionary = dictionary
        self.observation_space: Any = spaces.Dict(camera=IMAGE, place=spaces.Box(-1, 1, (2,))) if dictionary else IMAGE

    def observation(self) -> Any:
        image = np.full(IMAGE.shape, 255, np.uint8)
        return {"camera": image, "place": np.zeros(2, np.float32)} if self.dictionary else image

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation(), 0.0, False, False, {}


@contextmanager
def first_convolutions() -> Iterator[set[float]]:
    """The largest numbers that convolutions over three channels were shown."""
    found: set[float] = set()

    def look(module: nn.Module, inputs: Any) -> None:
        # building an encoder shows it black images
        if isinstance(module, nn.Conv2d) and module.in_channels == 3 and not inputs[0].is_meta:
            brightest = float(inputs[0].max())
            found.update({round(brightest, 6)} if brightest > 0.0 else ())

    handle = register_module_forward_pre_hook(look)
    try:
        yield found
    finally:
        handle.remove()


@pytest.mark.parametrize("name", BRIGHTEST)
@pytest.mark.parametrize("policy", ["MlpPolicy", "CnnPolicy", "CnnLstmPolicy"])
def test_in_the_librarys_own_policies(name: str, policy: str, tmp_path: Path) -> None:
    extractor = {
        "features_extractor_class": getattr(published_encoders, name),
        "features_extractor_kwargs": {"feature_dim": 8},
    }
    small = {"n_steps": 4, "batch_size": 4, "n_epochs": 1, "seed": 0, "device": "cpu"}
    with first_convolutions() as found:
        model = PPO(policy, White(), **small, policy_kwargs=extractor).learn(4)
        model.predict(White().observation())
        model.save(tmp_path / "model")
        PPO.load(tmp_path / "model", device="cpu").predict(White().observation())  # files know the encoder by name
    assert found == {BRIGHTEST[name]}


def test_in_a_dictionary() -> None:
    extractor = {
        "features_extractor_class": published_encoders.RaffinCombinedEncoder,
        "features_extractor_kwargs": {"feature_dim": 8, "cnn_output_dim": 8},
    }
    small = {"n_steps": 4, "batch_size": 4, "n_epochs": 1, "seed": 0, "device": "cpu"}
    with first_convolutions() as found:
        PPO("MultiInputPolicy", White(dictionary=True), **small, policy_kwargs=extractor).learn(4)
    assert found == {1.0}


@pytest.mark.parametrize("name", BRIGHTEST)
def test_in_rlltes_agents(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    env = TorchVecEnv(DummyVecEnv([White]))
    with first_convolutions() as found:
        agent = RlltePPO(env=env, num_steps=4, batch_size=4, feature_dim=8, n_epochs=1, device="cpu")
        agent.set(encoder=getattr(rllte_encoders, name)(observation_space=IMAGE, feature_dim=8))
        agent.train(num_train_steps=4)
    assert found == {BRIGHTEST[name]}


@pytest.mark.parametrize("name", BRIGHTEST)
def test_in_hsuanwus_trainer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    configuration = {
        "num_train_steps": 8,
        "num_steps": 4,
        "device": "cpu",
        "encoder": {"name": name, "feature_dim": 8},
        "learner": {"name": "PPGLearner", "hidden_dim": 8, "policy_epochs": 2, "num_policy_mini_batch": 1},
        "storage": {"name": "VanillaRolloutStorage"},
    }
    env = TorchVecEnv(DummyVecEnv([White] * 2))
    with first_convolutions() as found:
        OnPolicyTrainer(configuration, env).train()
    assert found == {BRIGHTEST[name]}


def test_pixels_of_a_flat_reader_are_divided_by_the_policy() -> None:
    for kind in (published_encoders.IdentityEncoder, published_encoders.VanillaMlpEncoder):
        width = {"feature_dim": 3 * 40 * 40} if kind is published_encoders.IdentityEncoder else {"feature_dim": 8}
        extractor = {"features_extractor_class": kind, "features_extractor_kwargs": width}
        policy = PPO("MlpPolicy", White(), n_steps=4, batch_size=4, policy_kwargs=extractor, device="cpu").policy
        seen: list[torch.Tensor] = []
        policy.features_extractor.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(inputs[0]))
        policy.predict_values(torch.full((1, *IMAGE.shape), 255, dtype=torch.uint8))
        assert (seen[0] == 1.0).all()
