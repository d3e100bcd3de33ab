"""What keeps a resume from being exact is said by name, or an error; what was imported keeps nothing from it."""

from __future__ import annotations

import warnings

import numba  # noqa: F401 - so that the kernels are used
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control.pendulum import PendulumEnv

from proximo import PPO, make_vec_env
from proximo.envs import SubprocVecEnv, VecNormalize
from proximo.envs.state import known_states
from proximo.envs.vector import normalize, normalize_kernels
from proximo.errors import NotExactError
from proximo.functional import advantages
from proximo.persistence import versions
from proximo.persistence.versions import versions_of
from proximo.training.checkpoints import PeriodicCheckpoints

SMALL = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "seed": 3}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    env = make_vec_env("Pendulum-v1", 2, seed=1)
    PPO("MlpPolicy", env, **SMALL).learn(64, callback=PeriodicCheckpoints(folder, every_steps=32))
    return folder / "model_32_steps.zip"


def test_the_same_versions_say_nothing(checkpoint):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PPO.load(checkpoint, env=make_vec_env("Pendulum-v1", 2)).resume(strict=True)


def test_other_versions_are_named(checkpoint, monkeypatch):
    then = PPO.load(checkpoint)._training_state["versions"]
    assert set(then) >= {"proximo", "gymnasium", "numpy", "numba", "torch"}
    real = versions.package_version
    monkeypatch.setattr(
        versions, "package_version", lambda name: {"numpy": "1.0", "gymnasium": None}.get(name, real(name))
    )
    expected = rf"numpy is 1\.0, it was {np.__version__}"
    model = PPO.load(checkpoint, env=make_vec_env("Pendulum-v1", 2))
    with pytest.warns(UserWarning, match=rf"not bit for bit.*gymnasium is not installed, it was.*{expected}"):
        model.resume()
    assert model.num_timesteps == 64
    model = PPO.load(checkpoint, env=make_vec_env("Pendulum-v1", 2))
    with pytest.raises(NotExactError, match=expected):
        model.resume(strict=True)
    assert model.num_timesteps == 32


@pytest.mark.parametrize(
    ("env_id", "packages"),
    [
        ("HalfCheetah-v5", {"mujoco"}),
        ("HopperBulletEnv-v0", {"pybullet", "pybullet_envs_gymnasium"}),
        ("PongNoFrameskip-v4", {"ale-py"}),
    ],
)
def test_packages_of_environments_are_recorded(env_id, packages):
    found = versions_of(make_vec_env(env_id, 1))
    assert packages <= found.keys()
    assert not {"mujoco", "pybullet", "ale-py"} - packages & found.keys()


class OtherPendulum(PendulumEnv):
    """As a later version might be: an attribute of its state has another name."""

    def reset(self, **options):
        outcome = super().reset(**options)
        del self.last_u
        return outcome

    def step(self, action):
        outcome = super().step(action)
        del self.last_u
        return outcome


@pytest.mark.parametrize("kind", [{}, {"vec_env_cls": SubprocVecEnv, "vec_env_kwargs": {"start_method": "fork"}}])
def test_attributes_that_a_state_should_have_and_has_not_are_named(kind, tmp_path, monkeypatch):
    name = known_states.class_name(OtherPendulum())
    monkeypatch.setitem(known_states.ATTRIBUTES, name, ("state", "last_u"))
    env = make_vec_env(OtherPendulum, 2, seed=1, **kind)
    PPO("MlpPolicy", env, **SMALL).learn(64, callback=PeriodicCheckpoints(tmp_path, every_steps=32))
    model = PPO.load(tmp_path / "model_32_steps.zip", env=make_vec_env(OtherPendulum, 2, **kind))
    with pytest.warns(UserWarning, match=r"not in the state of the environments: .*OtherPendulum\.last_u"):
        model.resume()
    model = PPO.load(tmp_path / "model_32_steps.zip", env=make_vec_env(OtherPendulum, 2, **kind))
    with pytest.raises(NotExactError, match=r"OtherPendulum\.last_u"):
        model.resume(strict=True)


# ---------------------------------------------------------------------------------------------------- what is imported


def test_running_statistics_of_rewards_are_the_same_compiled_or_not():
    chance = np.random.default_rng(0)
    compiled = normalize_kernels._compiled().rewards
    for size in (1, 2, 7, 8, 9, 64, 200):
        one = other = (0.0, 1.0)
        for step in range(50):
            returns = 100.0 * chance.normal(size=size)
            count = 1e-4 + step * size
            one = compiled(returns, *one, count)
            other = normalize_kernels.merged_rewards(returns.tolist(), *other, count)
            assert one == other


def test_a_training_does_not_depend_on_what_was_imported(monkeypatch):
    """The torch backend, with and without the kernels that are used only if numba is loaded."""

    def trained():
        env = VecNormalize(make_vec_env("Pendulum-v1", 9, seed=1))
        model = PPO("MlpPolicy", env, n_steps=16, batch_size=48, n_epochs=2, seed=3, backend="torch").learn(432)
        return torch.cat([value.flatten() for value in model.policy.state_dict().values()]), env.ret_rms.var

    compiled = trained()
    monkeypatch.setattr(normalize, "kernels_if_cheap", lambda: None)
    monkeypatch.setattr(advantages, "compiled_scan", lambda: advantages.reference_scan)
    plain = trained()
    assert torch.equal(compiled[0], plain[0])
    assert compiled[1] == plain[1]


def test_every_attribute_of_the_state_table_is_there_after_a_step():
    """Otherwise every resume of such an environment would warn."""
    for name in ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "Taxi-v4", "Blackjack-v1", "FrozenLake-v1"):
        env = make_vec_env(name, 1, seed=1)
        env.reset()
        env.step([env.action_space.sample()])
        other = make_vec_env(name, 1)
        other.set_state(env.get_state())
        assert list(other.state_gaps) == []
