"""Search spaces: what is drawn can be trained, what could not be is refused."""

from __future__ import annotations

import warnings

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import proximo
from proximo import ALGORITHMS
from proximo.tuning import Space
from proximo.tuning.space import SpaceError
from proximo.zoo import load_preset

optuna.logging.set_verbosity(optuna.logging.WARNING)


def draws(space: Space, count: int, seed: int = 0) -> list:
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=seed))
    return [space.suggest(study.ask()) for _ in range(count)]


def check(space: Space, preset) -> None:
    """As an agent would check it; a minibatch that does not divide the rollout is a warning, and here an error."""
    config_class = getattr(proximo, ALGORITHMS[space.algo]).config_class
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arguments = {name: value for name, value in preset.model_arguments().items() if name != "policy_kwargs"}
        config = config_class(**arguments)
        config.check_environments(preset.n_envs)
    rollout = config.n_steps * preset.n_envs
    assert rollout <= space.most_samples
    assert getattr(config, "batch_size", 1) <= rollout


@pytest.mark.parametrize("algo", list(ALGORITHMS))
@given(n_envs=st.integers(1, 40), seed=st.integers(0, 2**31), most=st.integers(8, 10_000))
@settings(max_examples=5, deadline=None, derandomize=True)
def test_whatever_is_drawn_can_be_trained(algo, n_envs, seed, most):
    start = load_preset(algo, "default").changed(n_envs=n_envs)
    space = Space.read(algo, start, most_samples=most * n_envs)
    for preset in draws(space, 10, seed):
        check(space, preset)


def test_a_space_is_written_and_read_back():
    table = {
        "learning_rate": {"low": 1e-4, "high": 1e-2, "log": True, "schedule": ["constant", "linear"]},
        "n_envs": {"choices": [1, 2, 4]},
        "n_steps": {"low": 64, "high": 512, "powers_of": 2},
        "batch_size": {"low": 16, "high": 512, "powers_of": 2},
        "policy_kwargs": {"net_arch": {"choices": [[64, 64], [256]]}, "activation_fn": {"choices": ["Tanh", "ReLU"]}},
    }
    space = Space.from_table("ppo", load_preset("ppo", "default"), table)
    assert Space.from_table("ppo", space.start, space.as_table()) == space
    presets = draws(space, 60)
    for preset in presets:
        check(space, preset)
    assert {tuple(preset.arguments["policy_kwargs"]["net_arch"]) for preset in presets} == {(64, 64), (256,)}
    assert {preset.n_envs for preset in presets} == {1, 2, 4}
    forms = {isinstance(preset.arguments["learning_rate"], str) for preset in presets}
    assert forms == {True, False}
    assert all(1e-4 <= float(str(preset.arguments["learning_rate"]).removeprefix("lin_")) <= 1e-2 for preset in presets)


def test_a_schedule_of_the_start_stays_one():
    start = load_preset("ppo", "CartPole-v1")
    assert start.arguments["learning_rate"] == "lin_0.001"
    space = Space.read("ppo", start)
    assert all(preset.arguments["learning_rate"].startswith("lin_") for preset in draws(space, 5))
    assert space.start_parameters()["learning_rate"] == 0.001


def test_the_start_in_the_words_of_optuna():
    start = load_preset("ppo", "Pendulum-v1").changed({"batch_size": 64, "target_kl": None})
    found = Space.read("ppo", start).start_parameters()
    assert found["log2(n_steps)"] == 10
    assert found["log2(batch_size)"] == 6
    assert found["1 - gamma"] == pytest.approx(0.1)
    assert found["n_epochs"] == 10


def test_a_start_beyond_the_space_is_told_as_the_nearest_that_can_be_drawn():
    start = load_preset("ppo", "default").changed({"n_steps": 1024, "batch_size": 512}, n_envs=4)
    space = Space.read("ppo", start, most_samples=455)
    found = space.start_parameters()
    assert (found["log2(n_steps)"], found["log2(batch_size)"]) == (6, 8)
    study = optuna.create_study(direction="maximize")
    study.enqueue_trial(found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(space, space.suggest(study.ask()))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"learning_rat": {"low": 1, "high": 2}}, "learning_rat.*no hyperparameter; did you mean 'learning_rate'"),
        ({"gamma": {"lowest": 0.9, "high": 0.99}}, "gamma .* has the key 'lowest'; did you mean 'low'"),
        ({"gamma": {"low": 0.9}}, "needs low and high, or choices"),
        ({"gamma": {"low": 0.99, "high": 0.9}}, "expected low below high"),
        ({"gamma": {"low": 0.9, "high": 1.5}}, "allows gamma to be 1.5"),
        ({"gamma": 0.9}, "expected a table"),
        ({"n_epochs": {"low": 1.5, "high": 3}}, "whole number"),
        ({"ent_coef": {"low": 0, "high": 1, "log": True}}, "expected a low above 0"),
        ({"vf_coef": {"low": 1, "high": 8, "powers_of": 2}}, "powers_of is for whole numbers"),
        ({"n_steps": {"low": 33, "high": 63, "powers_of": 2}}, "no power of 2 from 33 to 63"),
        ({"vf_coef": {"low": 0.1, "high": 1, "schedule": ["linear"]}}, "for what may be a schedule"),
        ({"batch_size": {"choices": [64, 100]}}, "batch_size must divide n_steps \\* n_envs"),
        ({"batch_size": {"low": 4096, "high": 8192, "powers_of": 2}}, "does not divide n_steps \\* n_envs = 2048"),
        ({"n_steps": {"low": 8, "high": 64, "powers_of": 2}}, "batch_size 64, which is not searched"),
        ({"n_steps": {"low": 2**15, "high": 2**16, "powers_of": 2}}, "evaluated after 20,000 steps"),
        ({"n_steps": {"low": 8, "high": 64, "powers_of": "2"}}, "powers_of is '2'; expected a whole number such as 2"),
        ({"n_steps": {"low": -4, "high": 64, "powers_of": 2}}, "powers_of is for whole numbers from 1 on"),
        ({"n_envs": {"low": 0, "high": 4}}, "allows n_envs to be 0; expected a whole number of at least 1"),
        ({"n_envs": {"low": -4, "high": 4}}, "allows n_envs to be -4"),
        ({"n_envs": {"choices": [4, 0]}}, "allows n_envs to be 0"),
        ({"n_envs": {"choices": [4, "8"]}}, "allows n_envs to be '8'"),
        (
            {name: {"low": 2000, "high": 100_000} for name in ("n_envs", "n_steps")},
            "with 100000 environments a rollout of 200000000",
        ),
        ({"n_envs": {"low": 1, "high": 100}, "n_steps": {"low": 64, "high": 20_000}}, "too many.*powers_of = 2"),
        ({"gamma": {"low": 0.9, "high": 0.99, "log": 3}}, "log is 3; expected true or false"),
        ({"clip_range": {"low": 0.1, "high": 0.2, "schedule": 3}}, "schedule is 3; expected a list"),
        ({"clip_range": {"low": 0.1, "high": 0.2, "schedule": [[1]]}}, "a list of 'constant' and 'linear'"),
        ({}, "is empty"),
    ],
)
def test_what_cannot_be_searched_is_refused(table, message):
    with pytest.raises(SpaceError, match=message):
        Space.from_table("ppo", load_preset("ppo", "default"), table, 20_000)


def test_a_file_that_is_no_toml(tmp_path):
    (tmp_path / "my.toml").write_text("[gamma\n")
    with pytest.raises(SpaceError, match=r"my\.toml"):
        Space.read("ppo", load_preset("ppo", "default"), tmp_path / "my.toml")


def test_a_start_whose_learning_rate_follows_the_divergence():
    start = load_preset("ppo", "Pendulum-v1").changed({"learning_rate": "kl_0.01"})
    assert "learning_rate" not in Space.read("ppo", start).start_parameters()  # a range has nothing like it
    rates = {"low": 1e-4, "high": 1e-2, "schedule": ["constant", "linear"]}
    assert Space.from_table("ppo", start, {"learning_rate": rates}).start_parameters() == {}
    rates = {"choices": ["kl_0.01", "lin_0.001", 0.001]}
    for rate in rates["choices"]:
        space = Space.from_table("ppo", start.changed({"learning_rate": rate}), {"learning_rate": rates})
        assert space.start_parameters() == {"learning_rate": rate}
