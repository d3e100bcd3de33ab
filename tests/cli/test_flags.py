"""Flags made from the configuration, presets under flags, configurations as TOML."""

from __future__ import annotations

from dataclasses import fields

import pytest

from proximo import ALGORITHMS, PPO
from proximo.cli.algorithms import algorithm_class, default_arguments
from proximo.cli.flags import toml_table, whole_number, yes_or_no
from proximo.cli.plot import grouped
from proximo.cli.runs import Run, RunConfig
from proximo.cli.train import parse_arguments, run_config
from proximo.config import PPOConfig
from proximo.zoo import load_preset


def config_of(*words: str) -> RunConfig:
    return run_config(parse_arguments(["CartPole-v1", "--seed", "1", *words]))


def test_every_hyperparameter_is_a_flag_with_help(capsys):
    with pytest.raises(SystemExit) as exit_:
        parse_arguments(["--help"])
    assert exit_.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for item in fields(PPOConfig):
        assert f"--{item.name.replace('_', '-')} " in text
    assert "Discount factor. (default: the preset's, else 0.99)" in text


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("form", ["two words", "one word"])
def test_each_algorithm_has_its_own_flags_and_defaults(algorithm, form, capsys):
    words = ["--algo", algorithm] if form == "two words" else [f"--algo={algorithm}"]
    with pytest.raises(SystemExit):
        parse_arguments([*words, "--help"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    agent = algorithm_class(algorithm)
    defaults = default_arguments(agent)
    assert set(defaults) == set(agent.config_class.__dataclass_fields__)
    for name, value in defaults.items():
        assert f"--{name.replace('_', '-')} " in text
        shown = str(value).lower() if value is None or isinstance(value, bool) else str(value)
        assert f"(default: the preset's, else {shown})" in text
    assert ("--ent-coef " in text) == (algorithm != "trpo")
    assert run_config(parse_arguments(["CartPole-v1", *words])).algo == algorithm


def test_defaults_are_the_constructors():
    assert default_arguments(algorithm_class("recurrent_ppo"))["n_steps"] == 128
    assert default_arguments(algorithm_class("maskable_ppo"))["n_steps"] == 2048
    assert default_arguments(algorithm_class("a2c"))["use_rms_prop"] is True


def test_a2c_presets_are_for_a2c():
    config = config_of("--algo", "a2c", "--n-steps", "7")
    assert (config.preset.n_envs, config.preset.n_timesteps) == (8, 500_000)
    assert config.preset.arguments == {"ent_coef": 0.0, "n_steps": 7}


def test_meanings_of_fields_come_from_the_nearest_class():
    texts = PPOConfig.meanings()
    assert set(texts) == set(PPOConfig.__dataclass_fields__)
    assert texts["learning_rate"].startswith("Step size of Adam")
    assert texts["gamma"] == "Discount factor."


def test_the_frequency_of_noise_goes_with_gsde_of_flag_or_preset():
    given = run_config(
        parse_arguments(["Pendulum-v1", "--preset", "none", "--use-sde", "true", "--sde-sample-freq", "4"])
    )
    of_preset = run_config(parse_arguments(["Pendulum-v1", "--sde-sample-freq", "8"]))
    assert given.preset.model_arguments()["sde_sample_freq"] == 4
    assert of_preset.preset.model_arguments()["sde_sample_freq"] == 8


def test_without_flags_the_preset_stands():
    assert config_of().preset == load_preset("ppo", "CartPole-v1")


def test_flags_go_before_the_preset():
    preset = config_of("--gamma", "0.9", "--learning-rate", "lin_1e-4", "--n-epochs", "3", "--envs", "2").preset
    assert preset.n_envs == 2
    assert preset.arguments == {
        **load_preset("ppo", "CartPole-v1").arguments,
        "gamma": 0.9,
        "learning_rate": "lin_1e-4",
        "n_epochs": 3,
    }


def test_none_is_a_value_and_not_the_same_as_unset():
    assert "target_kl" not in config_of().preset.arguments
    assert config_of("--target-kl", "none").preset.arguments["target_kl"] is None
    assert config_of("--clip-range-vf", "0.3").preset.arguments["clip_range_vf"] == 0.3


def test_preset_none_has_the_defaults():
    preset = config_of("--preset", "none").preset
    assert (preset.name, preset.arguments, preset.n_timesteps) == ("default", {}, 1_000_000)


def test_other_settings():
    preset = config_of(
        "--steps", "1e4", "--normalize", "true", "--env-kwargs", "sutton_barto_reward = true",
        "--policy-kwargs", '{net_arch = [8], activation_fn = "ReLU"}',
    ).preset  # fmt: skip
    assert (preset.n_timesteps, preset.normalize, preset.env_kwargs) == (10_000, True, {"sutton_barto_reward": True})
    assert preset.arguments["policy_kwargs"] == {"net_arch": [8], "activation_fn": "ReLU"}


def test_a_seed_is_drawn_once_and_kept():
    seeds = {run_config(parse_arguments(["CartPole-v1"])).seed for _ in range(3)}
    assert len(seeds) == 3
    assert min(seeds) >= 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps", "0"], "--steps is 0; expected at least 1"),
        (["--seed", "-1"], "--seed is -1; expected at least 0"),
        (["--until", "1", "--eval-episodes", "0"], "--eval-episodes is 0; expected at least 1"),
        (["--preset", "CartPole-v2"], "did you mean 'CartPole-v1'"),
        (["--sde-sample-freq", "4"], "--sde-sample-freq is 4, but nothing is drawn without gSDE"),
        (["--sde-sample-freq", "4", "--use-sde", "false"], "give --use-sde true too"),
    ],
)
def test_bad_values(words, message):
    with pytest.raises(ValueError, match=message):
        run_config(parse_arguments(["CartPole-v1", *words]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learning-rate", "lin_x"], "lin_3e-4"),
        (["--n-steps", "1.5"], "expected a whole number"),
        (["--steps", "abc"], "expected a whole number, got 'abc'"),
        (["--steps", "inf"], "expected a whole number, got 'inf'"),
        (["--until", "x"], "expected a number, got 'x'"),
        (["--gamma", "x"], "expected a number, got 'x'"),
        (["--gama", "0.9"], "--gamma"),
        (["--policy-kwargs", "net_arch"], "expected TOML"),
        (["--normalize", "perhaps"], "expected true or false"),
        (["--workers", "many"], "expected auto, cores or a number of worker processes such as 4, got 'many'"),
    ],
)
def test_words_that_cannot_be_read_are_explained(words, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        parse_arguments(["CartPole-v1", *words])
    assert exit_.value.code == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_readers_of_words():
    assert [whole_number(text) for text in ("12", "1e6", "1_000")] == [12, 1_000_000, 1000]
    assert [yes_or_no(text) for text in ("true", "No", "1")] == [True, False, True]
    assert toml_table('{a = 1, b = "x"}') == toml_table('a = 1, b = "x"') == {"a": 1, "b": "x"}


def completed(*words: str) -> RunConfig:
    return config_of(*words).completed(default_arguments(PPO), "MlpPolicy")


def test_configuration_survives_the_run_folder(tmp_path):
    config = completed("--policy-kwargs", "net_arch = {pi = [8], vf = [4]}", "--env-kwargs", "x = [1, 2.5]")
    written = Run.create(tmp_path, config)
    read = Run.open(written.folder.path)
    assert read.config.preset.model_arguments() == {
        key: value for key, value in config.preset.model_arguments().items() if value is not None
    }
    assert (read.config.env, read.config.seed, read.config.preset.env_kwargs) == ("CartPole-v1", 1, {"x": [1, 2.5]})
    assert written.folder.versions.is_file()


def test_a_completed_configuration_names_every_hyperparameter():
    assert set(completed().preset.arguments) >= set(PPOConfig.__dataclass_fields__)
    assert completed().preset.arguments["vf_coef"] == 0.5


def test_a_run_is_repeated_from_its_folder(tmp_path):
    run = Run.create(tmp_path, completed("--gamma", "0.5"))
    repeated = run_config(parse_arguments(["CartPole-v1", "--preset", str(run.folder.path), "--n-epochs", "2"]))
    assert repeated.seed == 1
    assert (repeated.preset.arguments["gamma"], repeated.preset.arguments["n_epochs"]) == (0.5, 2)


def test_a_damaged_configuration_is_named(tmp_path):
    run = Run.create(tmp_path, completed())
    run.folder.config.write_text('env = "CartPole-v1"\n')
    with pytest.raises(ValueError, match="lacks algo, seed, preset"):
        Run.open(run.folder.path)


def test_seeds_share_a_curve_and_other_settings_get_their_own(tmp_path):
    runs = [
        Run.create(tmp_path, config_of(*words).completed(default_arguments(PPO), "MlpPolicy"))
        for words in ([], ["--seed", "2"], ["--gamma", "0.5"], ["--gamma", "0.5", "--seed", "3"])
    ]
    curves = grouped(runs)
    assert {label: len(folders) for label, folders in curves.items()} == {
        "PPO on CartPole-v1, gamma 0.98": 2,
        "PPO on CartPole-v1, gamma 0.5": 2,
    }
