from __future__ import annotations

import importlib.util

import gymnasium as gym
import pytest
from counting_envs import CountingEnv

from proximo.envs import Monitor, SubprocVecEnv, is_wrapped, make_atari_env, make_env, make_vec_env, unwrap_wrapper
from proximo.errors import MissingExtraError


def test_unknown_id_has_near_matches():
    with pytest.raises(ValueError, match=r"unknown environment id 'CartPole-v9': did you mean .*'CartPole-v1'"):
        make_vec_env("CartPole-v9")
    with pytest.raises(ValueError, match="unknown environment id 'Nonsense/None-v0'"):
        make_env("Nonsense/None-v0")
    with pytest.raises(ValueError, match="unknown environment id 'CartPole-v9'"):  # and not from within a worker
        make_vec_env("CartPole-v9", vec_env_cls=SubprocVecEnv)
    gym.register("Aged-v2", entry_point=CountingEnv)
    with pytest.raises(gym.error.DeprecatedEnv, match="Aged-v2"):
        make_env("Aged-v1")


def test_id_without_version():
    with pytest.warns(UserWarning, match="latest version"):
        assert make_env("CartPole").spec.id == "CartPole-v1"


def test_missing_extra_is_named(monkeypatch):
    def without(package):
        def entry_point(**kwargs):
            raise gym.error.DependencyNotInstalled(f"{package} is not installed, run `pip install something`")

        return entry_point

    for package, extra in (("MuJoCo", "mujoco"), ("Box2D", "box2d"), ("pygame", "classic")):
        gym.register(f"Needs{package}-v0", entry_point=without(package))
        with pytest.raises(MissingExtraError, match=rf"pip install 'proximo\[{extra}\]'"):
            make_vec_env(f"Needs{package}-v0")
    gym.register("NeedsOther-v0", entry_point=without("flux capacitor"))
    with pytest.raises(gym.error.DependencyNotInstalled, match="flux capacitor"):
        make_vec_env("NeedsOther-v0")

    found, missing = importlib.util.find_spec, ("ale_py", "pybullet_envs_gymnasium")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else found(name))
    with pytest.raises(MissingExtraError, match=r"needs the package 'ale-py': pip install 'proximo\[atari\]'"):
        make_atari_env("ALE/NoSuchGame-v5")
    monkeypatch.delitem(gym.registry, "AntBulletEnv-v0", raising=False)  # registered where the package is installed
    with pytest.raises(MissingExtraError, match=r"proximo\[pybullet\]"):
        make_env("AntBulletEnv-v0")


def test_environment_without_render_mode():
    gym.register("Plain-v0", entry_point=lambda length=3: CountingEnv(length))
    env = make_vec_env("Plain-v0", env_kwargs={"length": 4})
    assert env.render_mode is None
    assert env.get_attr("length") == [4]


def test_wrapper_comes_after_the_monitor(tmp_path):
    def limited(env, steps):
        return gym.wrappers.TimeLimit(env, steps)

    env = make_vec_env(
        CountingEnv,
        n_envs=2,
        env_kwargs={"length": 9},
        wrapper_class=limited,
        wrapper_kwargs={"steps": 2},
        monitor_kwargs={"info_keywords": ("count",)},
    )
    single = env.envs[0]
    assert isinstance(single, gym.wrappers.TimeLimit)
    assert isinstance(single.env, Monitor)
    assert single.env.info_keywords == ("count",)
    assert is_wrapped(single, Monitor)
    assert unwrap_wrapper(single, Monitor) is single.env
    assert unwrap_wrapper(single, gym.wrappers.ClipAction) is None
    env.reset()
    env.step([0, 0])
    assert env.step_arrays([0, 0]).truncated.tolist() == [True, True]


def test_number_of_environments():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        make_vec_env("CartPole-v1", n_envs=0)


def test_factory_must_give_an_environment():
    with pytest.raises(TypeError, match=r"expected a gymnasium\.Env"):
        make_vec_env(lambda: "CartPole-v1")
