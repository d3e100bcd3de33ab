"""Presets of the algorithms beside PPO: every row fits its algorithm."""

from __future__ import annotations

import inspect

import pytest

from proximo import ALGORITHMS
from proximo.cli.algorithms import algorithm_class
from proximo.zoo import Preset, available_presets, load_preset
from proximo.zoo.presets import _resolved_row, _rows

ROWS = [(algorithm, name) for algorithm in ALGORITHMS if algorithm != "ppo" for name in available_presets(algorithm)]


@pytest.mark.parametrize(("algorithm", "name"), ROWS)
def test_keys_are_arguments_of_the_algorithm(algorithm: str, name: str) -> None:
    preset = Preset.from_row(name, _resolved_row(_rows(algorithm), name))
    assert set(preset.arguments) <= set(inspect.signature(algorithm_class(algorithm)).parameters)
    agent = algorithm_class(algorithm)
    known = {key: value for key, value in preset.arguments.items() if key in agent.config_class.__dataclass_fields__}
    numbers = {key: value for key, value in known.items() if not isinstance(value, str)}
    agent.config_class(**numbers)
    assert preset.n_timesteps >= 100_000


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_has_something_for_any_environment(algorithm: str) -> None:
    assert load_preset(algorithm, "MyOwn-v0").name == "default"
    assert load_preset(algorithm, "PongNoFrameskip-v4").frame_stack == 4


def test_numbers_of_a2c() -> None:
    lander = load_preset("a2c", "LunarLander-v3")
    assert (lander.n_envs, lander.n_timesteps) == (8, 200_000)
    assert lander.arguments == {"gamma": 0.995, "n_steps": 5, "learning_rate": "lin_0.00083", "ent_coef": 1e-5}
    walker = Preset.from_row("Walker2DBulletEnv-v0", _resolved_row(_rows("a2c"), "Walker2DBulletEnv-v0"))
    assert (walker.n_envs, walker.n_timesteps, walker.normalize) == (4, 2_000_000, True)
    assert (walker.arguments["gamma"], walker.arguments["learning_rate"]) == (0.99, "lin_0.00096")
    assert (walker.arguments["n_steps"], walker.arguments["gae_lambda"], walker.arguments["use_sde"]) == (8, 0.9, True)
