"""Every preset has the zoo's values: ``rl_zoo3.json`` holds them, with the release that they are from."""

from __future__ import annotations

import inspect
import json
import math
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from proximo import ALGORITHMS
from proximo.cli.algorithms import algorithm_class, default_arguments
from proximo.zoo import Preset, available_presets
from proximo.zoo.presets import FAMILIES, named_preset
from proximo.zoo.wrappers import name_and_arguments

ZOO = json.loads((Path(__file__).parent / "rl_zoo3.json").read_text())
FILES = {"ppo": "ppo", "a2c": "a2c", "recurrent_ppo": "ppo_lstm", "trpo": "trpo"}
NOT_ON_GYMNASIUM = {"MinitaurBulletEnv-v0", "MinitaurBulletDuckEnv-v0"}  # pybullet_envs_gymnasium has no Minitaur
WRAPPER_NAMES = {"YAMLCompatResizeObservation": "ResizeObservation"}  # ours takes a list of two numbers as it is


def names_here(zoo_name: str) -> list[str]:
    """Under which names a preset of the zoo is to be found here.

    Gymnasium has MuJoCo's tasks as -v4 and -v5; the zoo's ``NoVel`` ids are wrapped environments, here variants.
    """
    if match := re.fullmatch(r"(.*)NoVel-v(\d)", zoo_name):
        version = 3 if match[1].startswith("LunarLander") else match[2]
        return [f"{match[1]}-v{version}:no-velocity"]
    if match := re.fullmatch(r"([A-Za-z0-9]+)-v[24]", zoo_name):
        return [f"{match[1]}-v4", f"{match[1]}-v5"]
    return [zoo_name]


ROWS = [
    (algorithm, zoo_name, here)
    for algorithm, file in FILES.items()
    for zoo_name in ZOO[file]
    if zoo_name not in NOT_ON_GYMNASIUM
    for here in names_here(zoo_name)
]


def number(value: Any) -> Any:
    """``lin_X`` by its number, so that 2.5e-4 and 0.00025 are the same."""
    return ("lin", float(value[4:])) if isinstance(value, str) and value.startswith("lin_") else value


@pytest.mark.parametrize(("algorithm", "zoo_name", "here"), ROWS)
def test_values_are_those_of_the_zoo(algorithm: str, zoo_name: str, here: str) -> None:
    expected = dict(ZOO[FILES[algorithm]][zoo_name])
    preset = named_preset(algorithm, here)
    own = {item.name for item in fields(Preset)} - {"name", "arguments"}
    found = {"normalize": preset.normalize, "n_envs": preset.n_envs, "frame_stack": preset.frame_stack}
    wrappers = [_renamed(entry) for entry in expected.pop("env_wrapper", [])]
    if "NoVel" in zoo_name:
        wrappers.append("MaskVelocityWrapper")
    assert list(preset.env_wrapper) == wrappers
    if zoo_name != "default":  # there the policy is chosen by the observation space
        assert preset.policy == expected.pop("policy")
    assert preset.n_timesteps == expected.pop("n_timesteps")
    for key, default in (("normalize", False), ("n_envs", 1), ("frame_stack", 1)):
        assert found[key] == expected.pop(key, default)
    expected.pop("policy", None)
    assert not expected.keys() & own
    # the zoo leaves out what is the default; either side may write it down
    agent = algorithm_class(algorithm)
    defaults = default_arguments(agent) | {"sde_sample_freq": -1, "use_sde": False}
    for key in expected.keys() | preset.arguments.keys():
        ours, theirs = preset.arguments.get(key, defaults.get(key)), expected.get(key, defaults.get(key))
        assert number(ours) == number(theirs), key


def _renamed(entry: Any) -> Any:
    if isinstance(entry, str):
        return entry
    name, arguments = name_and_arguments(entry)
    return {WRAPPER_NAMES.get(name, name): arguments}


def test_every_preset_of_the_zoo_is_here_and_the_rest_is_ours() -> None:
    here = {algorithm: {name for algo, _, name in ROWS if algo == algorithm} for algorithm in FILES}
    for algorithm in FILES:
        assert here[algorithm] <= set(available_presets(algorithm))
        rest = set(available_presets(algorithm)) - here[algorithm]
        variants = {name for name in rest if name.endswith((":gaussian", ":gsde"))}
        assert rest - variants <= {*FAMILIES, "MiniGrid-MultiRoom-N4-S5-v1"}  # the newer of MultiRoom's two versions
    assert {name for file in FILES.values() for name in ZOO[file]} >= NOT_ON_GYMNASIUM


ALL = [(algorithm, name) for algorithm in ALGORITHMS for name in available_presets(algorithm)]


@pytest.mark.parametrize(("algorithm", "name"), ALL)
def test_keys_and_numbers_fit_the_algorithm(algorithm: str, name: str) -> None:
    preset = named_preset(algorithm, name)
    assert preset.name == name
    agent = algorithm_class(algorithm)
    assert set(preset.arguments) <= set(inspect.signature(agent).parameters)
    arguments = preset.model_arguments()  # every named class is found
    config = {key: value for key, value in arguments.items() if key in agent.config_class.__dataclass_fields__}
    agent.config_class(**{**default_arguments(agent), **config})


def test_procgen_has_the_values_of_ppgs_paper() -> None:
    """Appendix A of arXiv 2009.04416, of one of its four workers, and what openai/phasic-policy-gradient adds."""
    preset = named_preset("ppg", "procgen")
    arguments = {**default_arguments(algorithm_class("ppg")), **preset.model_arguments()}
    paper = {
        "gamma": 0.999,
        "gae_lambda": 0.95,
        "n_steps": 256,
        "n_epochs": 1,
        "value_epochs": 1,
        "ent_coef": 0.01,
        "clip_range": 0.2,
        "learning_rate": 5e-4,
        "rollouts_per_phase": 32,
        "aux_epochs": 6,
        "kl_coef": 1.0,
        "vf_coef": 0.5,
        "clip_range_vf": None,
        "max_grad_norm": math.inf,
        "aux_learning_rate": None,
    }
    assert {key: arguments[key] for key in paper} == paper
    assert (preset.n_envs, preset.n_timesteps) == (64, 100_000_000)
    assert preset.n_envs * arguments["n_steps"] / arguments["batch_size"] == 8  # minibatches per epoch
    assert arguments["num_aux_mini_batch"] / arguments["rollouts_per_phase"] == 16
    assert arguments["policy_kwargs"]["features_extractor_class"].__name__ == "ImpalaCNN"
    assert arguments["policy_kwargs"]["share_features_extractor"] is False  # its main results; one network is a variant
    assert preset.normalize == {"norm_obs": False, "norm_reward": True, "gamma": 0.99}
    assert preset.env_kwargs == {"num_levels": 0}
