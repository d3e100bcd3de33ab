"""MinAtar: the package's own games, in a form that encoders of images read."""

from __future__ import annotations

import numpy as np
import pytest

from proximo import PPG, PPO
from proximo.cli.algorithms import make_model
from proximo.envs.adapters.minatar import GAMES
from proximo.envs.make import make_env
from proximo.networks.encoders import MinAtarCNN
from proximo.zoo import load_preset, make_preset_env


@pytest.mark.parametrize("name", list(GAMES))
def test_the_games_are_the_packages_own(name):
    """Observation by observation and reward by reward, with its random numbers."""
    from minatar import Environment

    env, plain = make_env(f"MinAtar/{name}-v1"), Environment(GAMES[name])
    plain.seed(3)
    plain.reset()
    observation, _ = env.reset(seed=3)
    actions = plain.minimal_action_set()
    assert env.action_space.n == len(actions)
    assert env.observation_space.shape == (plain.state_shape()[2], 10, 10)
    chosen = np.random.default_rng(0).integers(len(actions), size=200)
    for action in chosen:
        assert env.observation_space.contains(observation)
        np.testing.assert_array_equal(observation, plain.state().transpose(2, 0, 1) * 255)
        observation, reward, terminated, truncated, _ = env.step(action)
        expected, ended = plain.act(actions[action])
        assert (reward, terminated, truncated) == (expected, ended, False)
        if ended:
            plain.reset()
            plain.last_action = 0
            observation, _ = env.reset()
    assert env.render().shape == (160, 160, 3)


@pytest.mark.parametrize("name", list(GAMES))
def test_a_game_goes_on_from_its_state(name):
    first, second = make_env(f"MinAtar/{name}-v0").unwrapped, make_env(f"MinAtar/{name}-v0").unwrapped
    first.reset(seed=1)
    second.reset(seed=2)
    for action in range(30):
        first.step(action % 6)
    second.set_state(first.get_state())
    for action in range(100):
        one, two = first.step(action % 6), second.step(action % 6)
        np.testing.assert_array_equal(one[0], two[0])
        assert one[1:] == two[1:]
        if one[2]:
            np.testing.assert_array_equal(first.reset()[0], second.reset()[0])


@pytest.mark.parametrize(("algo", "kind"), [("ppo", PPO), ("ppg", PPG)])
def test_presets_train_the_small_network(algo, kind):
    preset = load_preset(algo, "MinAtar/Breakout-v1")
    assert preset.name == "minatar"
    assert preset.n_timesteps == 2_000_000
    env = make_preset_env(preset, "MinAtar/Breakout-v1", n_envs=2, seed=0)
    smaller = {"n_steps": 16, "batch_size": 32, **({"rollouts_per_phase": 4} if algo == "ppg" else {})}
    model = make_model(algo, preset.changed(smaller), env, seed=0)
    assert isinstance(model, kind)
    assert isinstance(model.policy.features_extractor, MinAtarCNN)
    assert model.policy.features_extractor.cnn[0].weight.shape == (16, 4, 3, 3)
    assert env.has_state()
    model.learn(32)
    assert model.num_timesteps == 32


def test_an_image_that_is_too_small_is_refused():
    from gymnasium import spaces

    with pytest.raises(ValueError, match="too small for MinAtarCNN"):
        MinAtarCNN(spaces.Box(0, 255, (3, 2, 2), np.uint8))
