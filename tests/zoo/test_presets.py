"""Presets: every row of the data files parses, is complete, and fits the algorithm."""

from __future__ import annotations

import inspect
import tomllib

import numpy as np
import pytest
import torch

from proximo import PPO
from proximo.config import PPOConfig
from proximo.envs import VecFrameStack, VecNormalize
from proximo.functional.schedules import LinearSchedule
from proximo.training.run_folder import to_toml
from proximo.zoo import Preset, available_presets, load_preset, make_preset_env
from proximo.zoo.presets import _resolved_row, _rows, named_preset, schedule_from_text

NAMES = available_presets("ppo")


def row(name: str) -> dict[str, object]:
    return _resolved_row(_rows("ppo"), name)


@pytest.mark.parametrize("name", NAMES)
def test_keys_are_arguments_of_ppo(name):
    preset = Preset.from_row(name, row(name))
    accepted = set(inspect.signature(PPO).parameters)
    assert set(preset.arguments) <= accepted
    known = set(PPOConfig.__dataclass_fields__)
    PPOConfig(**{key: value for key, value in preset.model_arguments().items() if key in known})
    assert preset.n_envs >= 1
    assert preset.n_timesteps >= 100_000


@pytest.mark.parametrize("name", NAMES)
def test_rows_survive_toml(name):
    preset = Preset.from_row(name, row(name))
    table = tomllib.loads(to_toml(preset.as_row()))
    assert Preset.from_row(name, table) == preset


@pytest.mark.parametrize("name", NAMES)
def test_load(name):
    assert named_preset("ppo", name).name == name


def test_numbers_of_cartpole():
    preset = load_preset("ppo", "CartPole-v1")
    assert (preset.n_envs, preset.n_timesteps, preset.policy) == (8, 100_000, "MlpPolicy")
    assert preset.model_arguments() == {
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": LinearSchedule(0.001, 0.0, 1.0),
        "clip_range": LinearSchedule(0.2, 0.0, 1.0),
    }


def test_numbers_of_halfcheetah_hold_for_v5():
    v4, v5 = load_preset("ppo", "HalfCheetah-v4"), load_preset("ppo", "HalfCheetah-v5")
    assert v5.arguments == v4.arguments
    assert v5.normalize is True
    policy_kwargs = v5.model_arguments()["policy_kwargs"]
    assert policy_kwargs["activation_fn"] is torch.nn.ReLU
    assert policy_kwargs["net_arch"] == {"pi": [256, 256], "vf": [256, 256]}
    assert v5.arguments["learning_rate"] == 2.0633e-05


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        ("PongNoFrameskip-v4", "atari"),
        ("ALE/Breakout-v5", "atari"),
        ("ALE/Pong-ram-v5", "default"),
        ("MyMaze-v0", "default"),
        ("my_package:MyMaze-v0", "default"),
        ("my_package:CartPole-v1", "CartPole-v1"),
    ],
)
def test_which_preset(env_id, name):
    assert load_preset("ppo", env_id).name == name


def test_state_dependent_exploration():
    preset = load_preset("ppo", "HalfCheetahBulletEnv-v0")
    assert (preset.arguments["use_sde"], preset.arguments["sde_sample_freq"]) == (True, 4)
    assert load_preset("ppo", "Pendulum-v1").arguments["use_sde"] is True
    assert named_preset("ppo", "Pendulum-v1:gaussian").arguments["use_sde"] is False
    env = make_preset_env(load_preset("ppo", "Pendulum-v1"), "Pendulum-v1", n_envs=2, seed=0)
    arguments = load_preset("ppo", "Pendulum-v1").model_arguments() | {"n_steps": 32}
    model = PPO("MlpPolicy", env, seed=0, **arguments).learn(64)
    assert model.policy.use_sde


def test_time_feature_is_under_the_normaliser():
    preset = named_preset("ppo", "AntBulletEnv-v0:gaussian").changed(n_envs=2)
    assert preset.env_wrapper == ("TimeFeatureWrapper",)
    env = make_preset_env(preset, "Pendulum-v1", seed=0)
    assert isinstance(env, VecNormalize)
    assert env.reset().shape == (2, 4)
    env.step(np.zeros((2, 1)))
    assert env.get_original_obs()[:, 3] == pytest.approx(1 - 1 / 200)


def test_unknown_wrappers_are_named(monkeypatch):
    row = {"n_envs": 1, "n_timesteps": 1, "env_wrapper": "os.system"}
    monkeypatch.setitem(_rows("ppo"), "Mine-v0", row)
    with pytest.raises(ValueError, match=r"needs the wrapper 'os\.system'.*--preset none"):
        load_preset("ppo", "Mine-v0")


def test_unknown_names_have_near_matches():
    with pytest.raises(ValueError, match="did you mean 'CartPole-v1'"):
        named_preset("ppo", "CartPole-v2")
    with pytest.raises(ValueError, match=r"'pp0'.*'ppo'"):
        available_presets("pp0")


@pytest.mark.parametrize("text", ["lin_", "lin_x", "linear", "nan", "lin_inf"])
def test_bad_schedules(text):
    with pytest.raises(ValueError, match="lin_3e-4"):
        schedule_from_text("learning_rate", text)


def test_activations_are_found_in_any_case():
    preset = load_preset("ppo", "CartPole-v1").changed({"policy_kwargs": {"activation_fn": "relu"}})
    assert preset.model_arguments()["policy_kwargs"]["activation_fn"] is torch.nn.ReLU


def test_unknown_activation():
    preset = load_preset("ppo", "HalfCheetah-v5").changed({"policy_kwargs": {"activation_fn": "ReLUU"}})
    with pytest.raises(ValueError, match="did you mean 'ReLU'"):
        preset.model_arguments()


def test_environment_of_a_preset_is_wrapped_as_it_says():
    preset = load_preset("ppo", "HalfCheetah-v5").changed(n_envs=2, frame_stack=3)
    training = make_preset_env(preset, "Pendulum-v1", seed=0)
    assert isinstance(training, VecFrameStack)
    assert isinstance(training.venv, VecNormalize)
    assert training.venv.gamma == 0.98
    assert training.reset().shape == (2, 9)
    evaluating = make_preset_env(preset, "Pendulum-v1", n_envs=1, seed=0, training=False)
    assert (evaluating.num_envs, evaluating.venv.training, evaluating.venv.norm_reward) == (1, False, False)


def test_atari_environments_skip_frames_once():
    env = make_preset_env(load_preset("ppo", "ALE/Pong-v5"), "ALE/Pong-v5", n_envs=1, seed=0)
    observations = env.reset()
    assert observations.shape == (1, 84, 84, 4)
    assert observations.dtype == np.uint8
    frames = env.get_attr("unwrapped")[0].ale.getEpisodeFrameNumber()
    env.step(np.array([0]))
    assert env.get_attr("unwrapped")[0].ale.getEpisodeFrameNumber() == frames + 4
