"""OnPolicyTrainer: configurations that train, and those that are refused."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hydra.utils import instantiate
from omegaconf import OmegaConf

from proximo.errors import MissingExtraError
from proximo.hsuanwu.common.engine import OnPolicyTrainer
from proximo.hsuanwu.env import make_rllte_env
from proximo.hsuanwu.xploit.encoder import EspeholtResidualEncoder, VanillaMlpEncoder

CARTPOLE = """
experiment: cartpole
device: cpu
seed: 2
num_train_steps: 16384
num_steps: 128
num_envs: 8
num_init_steps: 2000
test_every_episodes: 100
num_test_episodes: 8
encoder:
  _target_: proximo.hsuanwu.xploit.encoder.VanillaMlpEncoder
  observation_space: {}
  feature_dim: 64
learner:
  _target_: proximo.hsuanwu.xploit.learner.PPGLearner
  observation_space: {}
  action_space: {}
  feature_dim: ${encoder.feature_dim}
  hidden_dim: 64
  lr: 2.5e-3
  policy_epochs: 4
storage:
  _target_: proximo.hsuanwu.xploit.storage.VanillaRolloutStorage
distribution:
  name: Categorical
augmentation:
  name: null
reward:
  name: null
"""
TINY = {
    "num_train_steps": 64,
    "num_steps": 16,
    "num_test_episodes": 2,
    "encoder": {"name": "VanillaMlpEncoder", "feature_dim": 16},
    "learner": {"name": "PPGLearner", "hidden_dim": 16, "policy_epochs": 2, "num_policy_mini_batch": 4},
    "storage": {"name": "VanillaRolloutStorage"},
}


def cartpole(num_envs: int = 2, seed: int = 1) -> Any:
    return make_rllte_env("CartPole-v1", num_envs=num_envs, seed=seed, asynchronous=False)


class BrightOrDark(gym.Env[Any, Any]):
    """A tiny picture, bright or dark: the action that says which is rewarded; four pictures per episode."""

    observation_space = spaces.Box(0, 255, (3, 8, 8), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self._picture(), {}

    def _picture(self) -> Any:
        self.bright = bool(self.np_random.integers(2))
        return self.np_random.integers(100, 200, (3, 8, 8)).astype(np.uint8) + np.uint8(50 if self.bright else 0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(int(action) == self.bright)
        self.count += 1
        return self._picture(), reward, self.count == 4, False, {}


def test_a_configuration_trains_cartpole(empty_folder):
    trainer = OnPolicyTrainer(OmegaConf.create(CARTPOLE), cartpole(8), cartpole(4, seed=9))
    assert isinstance(trainer.learner.encoder, VanillaMlpEncoder)
    before = trainer.test()
    trainer.train()
    after = trainer.test()
    assert before["episode_reward"] < 60.0
    assert after["episode_reward"] > 150.0
    assert after["step"] == trainer.global_step == 16384
    assert Path.cwd() == empty_folder
    assert trainer.work_dir.is_relative_to(empty_folder / "logs" / "cartpole")
    with (trainer.work_dir / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 16
    assert all(row["train/actor_loss"] for row in rows)
    assert sum(bool(row["train/aux_value_loss"]) for row in rows) == 4  # 16 updates, a phase after every fourth


def test_a_configuration_trains_on_tiny_images():
    cfgs = {
        "num_train_steps": 4096,
        "num_steps": 64,
        "num_test_episodes": 16,
        "encoder": {"name": "EspeholtResidualEncoder", "feature_dim": 32, "net_arch": [8]},
        "learner": {"name": "PPGLearner", "hidden_dim": 32, "lr": 2e-3, "policy_epochs": 4},
        "storage": {"name": "VanillaRolloutStorage", "discount": 0.0},
    }
    trainer = OnPolicyTrainer(
        cfgs,
        make_rllte_env(BrightOrDark, num_envs=8, seed=1, asynchronous=False),
        make_rllte_env(BrightOrDark, num_envs=4, seed=5, asynchronous=False),
    )
    assert isinstance(trainer.learner.encoder, EspeholtResidualEncoder)
    assert trainer.storage.obs.dtype == torch.uint8
    trainer.train()
    assert trainer.test()["episode_reward"] > 3.5  # of 4; guessing gives 2


def test_continuous_actions_train():
    env = make_rllte_env("Pendulum-v1", num_envs=2, asynchronous=False)
    trainer = OnPolicyTrainer(TINY | {"distribution": {"name": "DiagonalGaussian"}}, env, env)
    before = [parameter.clone() for parameter in trainer.learner.network.parameters()]
    trainer.train()
    assert all(not torch.equal(old, new) for old, new in zip(before, trainer.learner.network.parameters(), strict=True))


def test_a_seed_repeats_a_training_and_a_file_keeps_it(tmp_path):
    first, second = (OnPolicyTrainer(TINY, cartpole(), cartpole(seed=5)) for _ in range(2))
    first.train()
    second.train()
    for one, other in zip(first.learner.network.parameters(), second.learner.network.parameters(), strict=True):
        assert torch.equal(one, other)
    path = first.save(tmp_path / "model.zip")
    loaded = OnPolicyTrainer(TINY, cartpole(), cartpole(seed=5))
    loaded.load(path)
    for one, other in zip(first.learner.network.parameters(), loaded.learner.network.parameters(), strict=True):
        assert torch.equal(one, other)
    kept, found = (trainer.model.learner.optimizer.moments() for trainer in (first, loaded))
    assert kept
    assert all(torch.equal(value, found[name]) for name, value in kept.items())
    loaded.train()
    assert loaded.global_step == 128


def test_a_yaml_file_is_read(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(CARTPOLE, encoding="utf-8")
    trainer = OnPolicyTrainer(path, cartpole(8))
    assert trainer.learner.feature_dim == 64
    with pytest.raises(ValueError, match="there is no evaluation environment"):
        trainer.test()


def test_without_omegaconf_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "omegaconf", None)
    with pytest.raises(MissingExtraError, match=r"proximo\[hydra\]"):
        OnPolicyTrainer(tmp_path / "config.yaml", cartpole())


def test_hydra_itself_can_make_the_parts():
    described = {"observation_space": {"shape": [4]}, "feature_dim": 16}
    action_space = {"shape": [2], "type": "Discrete", "range": [0, 1]}
    root = "proximo.hsuanwu.xploit"
    cfgs = OmegaConf.create(
        {
            "encoder": {"_target_": f"{root}.encoder.VanillaMlpEncoder", **described},
            "learner": {
                "_target_": f"{root}.learner.PPGLearner", **described, "action_space": action_space, "device": "cpu"
            },
            "storage": {
                "_target_": f"{root}.storage.VanillaRolloutStorage", "device": "cpu", "obs_shape": [4],
                "action_shape": [2], "action_type": "Discrete", "num_steps": 4, "num_envs": 2,
            },
        }
    )  # fmt: skip
    learner = instantiate(cfgs.learner)
    learner.encoder = instantiate(cfgs.encoder)
    learner.check_storage(instantiate(cfgs.storage))
    assert learner.get_value(torch.zeros(3, 4)).shape == (3, 1)


def test_hsuanwus_own_paths_are_known():
    cfgs = TINY | {"encoder": {"_target_": "hsuanwu.xploit.encoder.VanillaMlpEncoder", "feature_dim": 16}}
    assert isinstance(OnPolicyTrainer(cfgs, cartpole()).learner.encoder, VanillaMlpEncoder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder": {"_target_": "os.system", "command": "touch owned"}}, "may name only classes of proximo.hsuanwu"),
        ({"learner": {"_target_": "proximo.hsuanwu.xploit.learner.ppg.torch.hub.load"}}, "may name only classes"),
        ({"encoder": {"_target_": "proximo.hsuanwu.xploit.encoder.published"}}, "is no encoder here"),
        ({"encoder": {"name": "MnihCnnEncodr"}}, "did you mean 'MnihCnnEncoder'"),
        ({"learner": {"name": "SACLearner"}}, "is no learner here"),
        ({"learner": {"name": "PPGLearner", "learning_rate": 1.0}}, "PPGLearner has no argument 'learning_rate'"),
        ({"encoder": {"name": "VanillaMlpEncoder", "width": 1}}, "VanillaMlpEncoder has no argument 'width'"),
        ({"learner": {"feature_dim": 32}}, "gives 16 features.*feature_dim 32"),
        ({"learner": {"observation_space": {"shape": [5]}}}, r"shape \(5,\), the environment shows \(4,\)"),
        ({"learner": {"action_space": {"shape": [3], "type": "Discrete", "range": [0, 2]}}}, "the environment's"),
        ({"learner": {"action_space": {"shape": [2], "type": "Discrete"}}}, "lacks 'range'"),
        ({"storage": {"obs_shape": [5]}}, "observations of shape"),
        ({"storage": {"num_envs": 4}}, "made for 4 environments, there are 2"),
        ({"learner": {"num_aux_mini_batch": 3}}, "a divisor of the 1024 samples"),
        ({"distribution": {"name": "DiagonalGaussian"}}, "from Categorical"),
        ({"num_envs": 3}, "num_envs is 3, the training environment has 2"),
        ({"num_step": 3}, "unknown key 'num_step'; did you mean 'num_steps'"),
        ({"num_steps": 0}, "num_steps is 0"),
        ({"use_irs": True}, "use_irs is true, but no reward is named"),
        ({"pretraining": True}, "needs an intrinsic reward"),
    ],
)
def test_a_wrong_configuration_is_refused_when_the_trainer_is_made(change, message, empty_folder):
    with pytest.raises(ValueError, match=message):
        OnPolicyTrainer(TINY | change, cartpole())
    assert list(empty_folder.iterdir()) == []


def test_what_is_no_configuration_is_refused():
    with pytest.raises(TypeError, match="expected a DictConfig"):
        OnPolicyTrainer(3, cartpole())
    with pytest.raises(TypeError, match="encoder is 'VanillaMlpEncoder'; expected a mapping"):
        OnPolicyTrainer(TINY | {"encoder": "VanillaMlpEncoder"}, cartpole())
