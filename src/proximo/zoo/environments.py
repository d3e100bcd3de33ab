"""The environments of a preset: made, wrapped, stacked and normalised as it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium as gym

    from proximo.envs import VecEnv
    from proximo.zoo.presets import Preset

_MINIGRID_ID = re.compile(r"^(MiniGrid|BabyAI)-")


def make_preset_env(
    preset: Preset,
    env_id: str,
    *,
    n_envs: int | None = None,
    seed: int | None = None,
    training: bool = True,
    workers: Mapping[str, Any] | bool = False,
    render_mode: str | None = None,
) -> VecEnv:
    """The vector environment that ``preset`` describes for ``env_id``.

    With ``training=False`` a normaliser's statistics stand still and rewards are those of the task; with ``workers``,
    True or arguments of ``SubprocVecEnv``, the environments run in worker processes.
    """
    from proximo.envs import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecNormalize, make_vec_env

    render = {} if render_mode is None else {"render_mode": render_mode}
    env: VecEnv = make_vec_env(
        env_id,
        n_envs=preset.n_envs if n_envs is None else n_envs,
        seed=seed,
        wrapper_class=_wrapper_chain(_wrappers(preset, env_id)),
        env_kwargs={**preset.env_kwargs, **render},
        vec_env_cls=SubprocVecEnv if workers else DummyVecEnv,
        vec_env_kwargs=dict(workers) if isinstance(workers, Mapping) else None,
    )
    if preset.normalize:
        settings = dict(preset.normalize) if isinstance(preset.normalize, dict) else {}
        if "gamma" in preset.arguments:
            settings.setdefault("gamma", preset.arguments["gamma"])
        if not training:
            settings.update(training=False, norm_reward=False)
        env = VecNormalize(env, **settings)
    if preset.frame_stack > 1:
        env = VecFrameStack(env, preset.frame_stack)
    return env


def _wrappers(preset: Preset, env_id: str) -> tuple[str, ...]:
    if not preset.env_wrapper and _MINIGRID_ID.match(env_id.rpartition(":")[2]):
        return ("wrap_minigrid",)  # as they come, its observations hold a sentence, which no policy takes
    return preset.env_wrapper


def _wrapper_chain(names: tuple[str, ...]) -> Callable[..., gym.Env[Any, Any]] | None:
    if not names:
        return None
    from proximo import envs

    def wrap(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        for name in names:
            env = getattr(envs, name)(env)
        return env

    return wrap
