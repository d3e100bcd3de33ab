"""Presets: every row of the data files parses, is complete, and fits the algorithm."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
import torch

from proximo import ALGORITHMS, PPO
from proximo.envs import EpisodicLifeEnv, VecFrameStack, VecNormalize
from proximo.functional.schedules import LinearSchedule
from proximo.training.run_folder import to_toml
from proximo.zoo import Preset, available_presets, load_preset, make_preset_env
from proximo.zoo.presets import PresetFile, named_preset, schedule_from_text, without_preset


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_survive_toml(algorithm):
    for name in available_presets(algorithm):
        preset = named_preset(algorithm, name)
        assert Preset.from_row(name, tomllib.loads(to_toml(preset.as_row()))) == preset


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_has_something_for_any_environment(algorithm):
    assert load_preset(algorithm, "MyOwn-v0").name == "default"
    assert load_preset(algorithm, "PongNoFrameskip-v4").frame_stack == 4


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


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        ("os.system", r"needs the wrapper os\.system.*--preset none"),
        ({"FrameSkip": {"skop": 2}}, r"gives FrameSkip the argument 'skop'.*did you mean 'skip'"),
        ({"MaskVelocityWrapper": {"env": 1}}, "gives MaskVelocityWrapper the argument 'env'"),
        ({"FrameSkip": 2}, r"expected a name such as .*\{ FrameSkip = \{ skip = 2 \} \}"),
        (3, "expected a name such as"),
    ],
)
def test_wrappers_are_names_and_arguments_of_a_list(wrapper, message):
    with pytest.raises(ValueError, match=message):
        Preset.from_row("Mine-v0", {"env_wrapper": wrapper})


def test_wrappers_take_their_arguments():
    preset = load_preset("recurrent_ppo", "ALE/Breakout-v5").changed(n_envs=1)
    env = make_preset_env(preset, "ALE/Breakout-v5", seed=0)
    assert not any(env.env_is_wrapped(EpisodicLifeEnv))
    assert any(
        make_preset_env(load_preset("ppo", "ALE/Breakout-v5"), "ALE/Breakout-v5").env_is_wrapped(EpisodicLifeEnv)
    )


def test_images_are_skipped_shrunk_and_grey_as_car_racing_wants_them():
    """Its own environment needs Box2D; the same wrappers around an Atari screen show the same."""
    preset = load_preset("ppo", "CarRacing-v3").changed(n_envs=2)
    env = make_preset_env(preset, "ALE/Pong-v5", seed=0)
    assert isinstance(env, VecFrameStack)
    assert not env.venv.norm_obs
    assert env.venv.norm_reward
    assert env.reset().shape == (2, 64, 64, 2)
    before = env.get_attr("unwrapped")[0].ale.getEpisodeFrameNumber()
    env.step(np.zeros(2, np.int64))
    assert env.get_attr("unwrapped")[0].ale.getEpisodeFrameNumber() == before + 2 * 4  # -v5 itself skips four


def test_minigrid_is_flat_with_its_preset():
    pytest.importorskip("minigrid")
    preset = load_preset("ppo", "MiniGrid-DoorKey-5x5-v0").changed(n_envs=1)
    assert make_preset_env(preset, "MiniGrid-DoorKey-5x5-v0").reset().shape == (1, 2835)


def test_velocities_are_hidden():
    preset = named_preset("recurrent_ppo", "CartPole-v1:no-velocity").changed(n_envs=1, normalize=False)
    env = make_preset_env(preset, "CartPole-v1", seed=0)
    env.reset()
    shown = env.step(np.array([1]))[0][0]
    assert (shown[[1, 3]] == 0).all()
    assert (shown[[0, 2]] != 0).all()
    assert env.has_state()
    with pytest.raises(ValueError, match="does not know where Acrobot-v1 shows velocities"):
        make_preset_env(preset, "Acrobot-v1")


def test_procgen_has_presets_by_family_and_steps_all_games_at_once():
    pytest.importorskip("envpool")
    preset = load_preset("ppg", "StarpilotEasy-v0")
    assert preset.name == "procgen"
    env = make_preset_env(preset, "StarpilotEasy-v0", n_envs=3, seed=0)
    assert isinstance(env, VecNormalize)
    assert env.gamma == 0.99  # of the rewards; the returns are discounted with 0.999
    assert env.reset().shape == (3, 3, 64, 64)
    with pytest.raises(ValueError, match="takes no worker processes"):
        make_preset_env(preset, "StarpilotEasy-v0", n_envs=3, workers=True)


MY_FILE = """
["CartPole-v1, Acrobot-v1"]
like = "MountainCar-v0"
n_envs = 3
gamma = 0.5

[default]
n_timesteps = 1e4
"""


def test_a_file_of_tables(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(MY_FILE)
    mine = PresetFile.read(path)
    cartpole = mine.preset("ppo", "CartPole-v1")
    assert (cartpole.name, cartpole.n_envs, cartpole.normalize) == ("mine:CartPole-v1", 3, True)
    assert (cartpole.arguments["gamma"], cartpole.arguments["n_steps"]) == (0.5, 16)  # its own, and the library's
    assert mine.preset("ppo", "package:Acrobot-v1").arguments == cartpole.arguments
    assert mine.preset("ppo", "Other-v0").n_timesteps == 10_000


def test_a_file_of_one_preset(tmp_path):
    path = tmp_path / "tuned.toml"
    path.write_text('algo = "a2c"\nenv = "CartPole-v1"\nn_envs = 2\nnormalize = { norm_obs = false }\nvf_coef = 0.1\n')
    file = PresetFile.read(path)
    assert (file.algo, file.env) == ("a2c", "CartPole-v1")
    preset = file.preset("a2c", "CartPole-v1")
    assert (preset.name, preset.normalize, preset.arguments) == ("tuned", {"norm_obs": False}, {"vf_coef": 0.1})


def test_a_preset_may_update_statistics_per_rollout():
    preset = named_preset("ppo", "CartPole-v1").changed(n_envs=1, normalize={"update_every": "rollout"})
    assert make_preset_env(preset, "CartPole-v1").update_every == "rollout"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_envs = 0", "n_envs of the preset 'x' is 0; expected a whole number of at least 1"),
        ("n_timesteps = 1.5", "n_timesteps of the preset 'x' is 1.5"),
        ('normalize = "yes"', "expected true or false or a table"),
        ("normalize = { gamma = [1] }", "normalize of the preset 'x': its setting gamma is a list"),
        ("normalize = { clip_obs = 'x' }", "normalize of the preset 'x': its setting clip_obs is 'x'"),
        ("normalize = { venv = 1 }", "normalize of the preset 'x': VecNormalize has no setting 'venv'"),
        ("policy = 3", "policy of the preset 'x' is 3; expected a name"),
        ('algo = ["ppo"]', "algo in .*x.toml is a list; expected a name"),
        ("env = 3", "env in .*x.toml is 3; expected a name"),
        ("like = []", "like of the preset 'default' is a list; expected the name of another"),
        ("n_envs = inf", "n_envs of the preset 'x' is inf; expected a whole number of at least 1 and at most"),
        ("n_envs = nan", "n_envs of the preset 'x' is nan"),
        ("frame_stack = 1_000_000_000", "frame_stack of the preset 'x' is 1000000000; .* at most 1,024"),
        ('like = "CartPole-v2"', "is like 'CartPole-v2'.*did you mean 'CartPole-v1'"),
        ('like = "default"', "is like 'default', of which there is no other table"),
        ("n_envs = ", "is not valid TOML"),
        ('["Other-v0"]\nn_envs = 2', "has no preset for CartPole-v1 and no \\[default\\]"),
        ("", "x.toml is empty; expected keys of a preset, such as n_steps = 128"),
    ],
)
def test_faults_of_a_file_are_named(text, message, tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        PresetFile.read(path).preset("ppo", "CartPole-v1")


def test_a_file_of_thousands_of_tables_that_are_each_like_the_next(tmp_path):
    path, count = tmp_path / "x.toml", 9000
    links = "".join(f"[a{number}]\nlike = 'a{number + 1}'\n" for number in range(count))
    path.write_text(f"{links}[a{count}]\nn_envs = 3\n[default]\nlike = 'a0'\ngamma = 0.5\n")
    preset = PresetFile.read(path).preset("ppo", "CartPole-v1")
    assert (preset.n_envs, preset.arguments) == (3, {"gamma": 0.5})
    path.write_text(path.read_text() + "[b]\nlike = 'c'\n[c]\nlike = 'b'\n")
    with pytest.raises(ValueError, match="'c' is like 'b', of which there is no other table"):
        PresetFile.read(path).preset("ppo", "b")


def test_an_environment_without_preset_says_so():
    assert "did you mean 'HalfCheetah-v5'" in without_preset("a2c", "HalfCheetah-v6")
    assert "none of the" in without_preset("ppo", "Zzz-v0")


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
