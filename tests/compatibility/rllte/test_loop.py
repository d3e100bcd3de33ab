"""rllte's agents in the library's loop: callbacks, logs, signals, NaN, files for the library's own tools."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import proximo
from proximo.cli.main import main
from proximo.envs import DummyVecEnv
from proximo.envs.adapters.torch_vec_env import TorchVecEnv
from proximo.errors import ModelFileError, NonFiniteError
from proximo.persistence.inspection import inspect_file
from proximo.rllte.agent import A2C, DAAC, PPG, PPO, DrAC, DrDAAC
from proximo.rllte.common.prototype import BaseEncoder
from proximo.rllte.env.testing import make_discrete_env
from proximo.rllte.xploit.encoder import EspeholtResidualEncoder
from proximo.training.callbacks import BaseCallback

SMALL: dict[str, Any] = {"num_steps": 16, "batch_size": 32, "hidden_dim": 8}
LIBRARY = {PPO: proximo.PPO, A2C: proximo.PPO, DrAC: proximo.PPO, PPG: proximo.PPG, DAAC: proximo.DAAC}


class Counting(BaseCallback):
    def __init__(self, stop_at: int = 10**9) -> None:
        super().__init__()
        self.steps, self.rollouts, self.stop_at = 0, 0, stop_at

    def _on_step(self) -> bool:
        self.steps += 1
        return self.num_timesteps < self.stop_at

    def _on_rollout_end(self) -> None:
        self.rollouts += 1


def test_callbacks_follow_the_training_and_may_end_it(cartpole):
    callback = Counting()
    agent = PPO(cartpole(), **SMALL)
    agent.train(num_train_steps=192, callback=callback)
    assert (callback.steps, callback.rollouts) == (48, 3)
    assert callback.model is agent.model
    stopped = PPO(cartpole(), **SMALL)
    stopped.train(num_train_steps=640, callback=Counting(stop_at=100))
    assert stopped.global_step == 64  # the second rollout was under way


def test_metrics_go_to_tensorboard(cartpole):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    agent = PPO(cartpole(), **SMALL)
    agent.train(num_train_steps=128, log_formats=["tensorboard"])
    events = EventAccumulator(str(agent.work_dir))
    events.Reload()
    assert [event.step for event in events.Scalars("train/policy_loss")] == [64, 128]
    assert events.Scalars("train/policy_loss")[-1].value == pytest.approx(agent.metrics["train/policy_loss"], rel=1e-6)


class BrokenNow(gym.Env[Any, Any]):
    """Every seventh reward is no number."""

    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32), gym.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.observation_space.sample(), float("nan") if self.steps % 7 == 0 else 1.0, False, False, {}


def test_on_non_finite_skips_what_is_no_number():
    def env() -> TorchVecEnv:
        return TorchVecEnv(DummyVecEnv([BrokenNow, BrokenNow]))

    with pytest.raises(NonFiniteError, match="reward"):
        PPO(env(), **SMALL).train(num_train_steps=64)
    agent = PPO(env(), **SMALL)
    agent.train(num_train_steps=64, on_non_finite="skip")
    assert all(torch.isfinite(part).all() for part in agent.policy.parameters())


SCRIPT = """
import sys
from proximo.rllte.agent import PPO
from proximo.rllte.env import make_rllte_env

agent = PPO(make_rllte_env("CartPole-v1", num_envs=2, asynchronous=False), num_steps=64, hidden_dim=8, batch_size=64)
if sys.argv[1:]:
    agent.load(sys.argv[1])
    print("loaded", agent.global_step)
    agent.train(128)
else:
    agent.train(1e9)
print("not reached" if not sys.argv[1:] else f"trained {agent.global_step}")
"""


def test_sigterm_ends_a_training_with_a_checkpoint(empty_folder: Path):
    script = empty_folder / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        for line in process.stdout:
            if "train step" in line:
                break
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(300) == 143
    assert "stopped by SIGTERM" in rest
    assert "not reached" not in rest
    saved = list(empty_folder.glob("logs/default/*/model/agent_*.zip"))
    newest = max(saved, key=lambda path: int(path.stem.split("_")[1]))
    finished = subprocess.run([*command, str(newest)], capture_output=True, text=True, timeout=300, check=False)
    steps = int(newest.stem.split("_")[1])
    assert f"loaded {steps}\n" in finished.stdout, finished.stderr
    assert f"trained {steps + 128}" in finished.stdout


@pytest.mark.parametrize("kind", LIBRARY)
def test_the_library_reads_what_an_agent_saves(kind, cartpole, capsys):
    agent = kind(cartpole(), cartpole(2), **SMALL)
    agent.train(num_train_steps=64)
    observations = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    model = LIBRARY[kind].load(agent.work_dir / "model.zip")
    expected, _ = agent.policy(torch.as_tensor(observations), training=False)
    assert model.predict(observations, deterministic=True)[0].tolist() == expected.tolist()
    assert model.export(agent.work_dir / "policy.pt2").largest_difference <= 1e-5
    assert inspect_file(agent.work_dir / "model.zip").facts["algorithm"] == LIBRARY[kind].__name__
    assert main(["evaluate", str(agent.work_dir), "--episodes", "2"]) == 0
    assert f"{LIBRARY[kind].__name__} on CartPole-v1" in capsys.readouterr().out
    assert main(["watch", str(agent.work_dir), "--seconds", "0.1"]) == 0
    assert (agent.work_dir / "video.gif").stat().st_size > 0


def test_a_run_whose_environments_have_no_id_is_evaluated_by_naming_one(cartpole, capsys):
    class Wrapped(gym.Wrapper[Any, Any, Any, Any]):
        """Something that a run folder cannot name."""

    env = TorchVecEnv(DummyVecEnv([lambda: Wrapped(gym.make("CartPole-v1"))] * 2))
    agent = PPO(env, **SMALL)
    agent.train(num_train_steps=32)
    for command in ("evaluate", "watch"):
        assert main([command, str(agent.work_dir)]) == 2
        assert "--env" in capsys.readouterr().err
    assert main(["evaluate", str(agent.work_dir / "model.zip"), "--env", "CartPole-v1", "--episodes", "1"]) == 0


def test_files_of_images_name_their_encoder():
    env = make_discrete_env("PixelObsEnv", num_envs=2, asynchronous=False)
    agent = PPO(env, feature_dim=16, num_steps=4, batch_size=8)
    agent.set(encoder=EspeholtResidualEncoder(env.observation_space, 16, net_arch=[4, 8]))
    agent.train(num_train_steps=8)
    assert not (agent.work_dir / "config.toml").exists()  # these environments have no id
    model = proximo.PPO.load(agent.save("images"))
    assert model.policy.features_extractor.net_arch == (4, 8)
    assert model.export(agent.work_dir / "policy.pt2").largest_difference <= 1e-5
    pictures = env.reset(seed=3)[0]
    torch.testing.assert_close(model.policy.predict_values(pictures), agent.policy.get_value(pictures))


def test_a_policy_is_saved_with_its_agent(cartpole):
    policy = PPO(cartpole(), **SMALL).policy
    for call in (policy.save, policy.load):
        with pytest.raises(NotImplementedError, match=r"agent.load\(path\)"):
            call("agent.pth", False, 0)


class Halves(BaseEncoder):
    """An encoder of the user's own."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs[:, : self.feature_dim]


def test_a_file_with_a_users_own_encoder_asks_for_it(cartpole):
    env = cartpole()
    agent = PPO(env, feature_dim=2, **SMALL)
    agent.set(encoder=Halves(env.observation_space, 2))
    path = agent.save("own")
    with pytest.raises(ModelFileError, match="features_extractor_class"):
        proximo.PPO.load(path)
    again = PPO(cartpole(), feature_dim=2, **SMALL)
    again.set(encoder=Halves(env.observation_space, 2))
    again.load(path)
    assert again.policy.encoder is again.encoder


def test_drdaac_is_saved_as_daac_with_its_augmentation(cartpole):
    agent = DrDAAC(cartpole(), aug_coef=0.3, **SMALL)
    agent.train(num_train_steps=64)
    model = proximo.DAAC.load(agent.save("drdaac"))
    assert type(model.augmentation).__name__ == "GaussianNoise"
    assert (model.aug_coef, model.value_epochs, model.adv_coef) == (0.3, 9, 0.25)
    assert model.learner.updates == 1


def test_an_agent_refuses_to_be_one_of_many_processes(cartpole, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="PPO trains in one process, but 4 were started to train together; start one"):
        PPO(cartpole(), **SMALL).train(num_train_steps=64)
