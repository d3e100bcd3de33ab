"""The environments of a preset: made, wrapped, stacked and normalised as it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proximo.errors import ProximoError
from proximo.zoo.wrappers import WrapperEntry, name_and_arguments, wrapper_chain

if TYPE_CHECKING:
    from proximo.envs import VecEnv
    from proximo.zoo.presets import Preset


@dataclass(frozen=True)
class _Asked:
    """What is to be made."""

    preset: Preset
    env_id: str
    count: int
    seed: int | None
    settings: Mapping[str, Any]  # for each environment
    workers: Mapping[str, Any] | bool


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
    True or arguments of ``SubprocVecEnv``, the environments run in worker processes. Games of ``atari_native`` are
    drawn (``render_mode``) by the wrappers, whose frames differ a little.
    """
    import gymnasium as gym

    settings = preset.env_kwargs if render_mode is None else {**preset.env_kwargs, "render_mode": render_mode}
    asked = _Asked(preset, env_id, preset.n_envs if n_envs is None else n_envs, seed, settings, workers)
    try:
        return _made(asked, training, render_mode)
    except ProximoError:
        raise
    except (gym.error.Error, ImportError, TypeError) as error:  # an unknown package, or arguments it does not take
        raise ValueError(f"the environment {env_id} cannot be made: {error}") from error


def _made(asked: _Asked, training: bool, render_mode: str | None) -> VecEnv:
    from proximo.envs import VecFrameStack, VecNormalize
    from proximo.envs.adapters.env_pool import is_env_pool_atari
    from proximo.envs.adapters.procgen import is_stepped_by_env_pool

    preset = asked.preset
    frames = preset.frame_stack
    if is_env_pool_atari(asked.env_id):
        env, frames = _env_pool_atari(asked), 1
    elif is_stepped_by_env_pool(asked.env_id):
        env = _env_pool(asked)
    elif preset.atari_native and render_mode is None:
        env = _native_atari(asked)
    else:
        env = _copies(asked)
    if preset.normalize:
        statistics = dict(preset.normalize) if isinstance(preset.normalize, dict) else {}
        if "gamma" in preset.arguments:
            statistics.setdefault("gamma", preset.arguments["gamma"])
        if not training:
            statistics.update(training=False, norm_reward=False)
        env = VecNormalize(env, **statistics)
    if frames > 1:
        env = VecFrameStack(env, frames)
    return env


def _copies(asked: _Asked) -> VecEnv:
    from proximo.envs import DummyVecEnv, SubprocVecEnv, make_vec_env
    from proximo.envs.vector.flat_tuple import with_flat_tuples

    env = make_vec_env(
        asked.env_id,
        n_envs=asked.count,
        seed=asked.seed,
        wrapper_class=wrapper_chain(asked.preset.env_wrapper),
        env_kwargs=dict(asked.settings),
        vec_env_cls=SubprocVecEnv if asked.workers else DummyVecEnv,
        vec_env_kwargs=dict(asked.workers) if isinstance(asked.workers, Mapping) else None,
    )
    return with_flat_tuples(env)  # which the preset's wrappers can read


def _env_pool(asked: _Asked) -> VecEnv:
    """EnvPool's environments all at once: it steps them in threads of its own. Procgen's games are among them."""
    from proximo.envs import make_env_pool
    from proximo.envs.adapters.env_pool import env_pool_task

    _refuse_for_env_pool(asked, asked.preset.env_wrapper)
    task = env_pool_task(asked.env_id)
    extra = "procgen" if task is None else "envpool"
    settings = _without_mode(asked.settings)
    return make_env_pool(task or asked.env_id, asked.count, asked.seed or 0, extra=extra, **settings)


def _env_pool_atari(asked: _Asked) -> VecEnv:
    """Atari from EnvPool, which does what the preset's wrapper and stack do by itself; the wrapper's skip too."""
    from proximo.envs import make_env_pool_atari
    from proximo.envs.adapters.env_pool import env_pool_task

    others = tuple(entry for entry in asked.preset.env_wrapper if entry != "AtariWrapper")
    _refuse_for_env_pool(asked, others)
    settings = _without_mode(asked.settings)
    skipped = {name: value for name, value in settings.items() if (name, value) != ("frameskip", 1)}
    stacked = {"stack_num": asked.preset.frame_stack, **skipped}
    return make_env_pool_atari(env_pool_task(asked.env_id) or asked.env_id, asked.count, asked.seed or 0, **stacked)


def _refuse_for_env_pool(asked: _Asked, wrappers: tuple[WrapperEntry, ...]) -> None:
    if asked.workers or wrappers:
        given = "worker processes" if asked.workers else f"the wrapper {wrappers[0]}"
        raise ValueError(
            f"{asked.env_id} is stepped by EnvPool in threads of its own, and takes no {given}; leave it out"
        )


def _native_atari(asked: _Asked) -> VecEnv:
    from proximo.envs import make_atari_env

    names = [name_and_arguments(entry) for entry in asked.preset.env_wrapper]
    if asked.workers or [name for name, _ in names] != ["AtariWrapper"]:
        given = "worker processes" if asked.workers else f"the wrappers {[name for name, _ in names]}"
        raise ValueError(
            f"atari_native steps games in threads of ale-py's, wrapped as AtariWrapper does, and takes no {given}; "
            "leave one of them out"
        )
    return make_atari_env(
        asked.env_id,
        asked.count,
        asked.seed,
        env_kwargs=dict(asked.settings),
        wrapper_kwargs=dict(names[0][1]),
        native=True,
    )


def steps_by_itself(preset: Preset, env_id: str) -> bool:
    """Whether the environments are stepped in threads of their own, and take no worker processes."""
    from proximo.envs.adapters.procgen import is_stepped_by_env_pool

    return is_stepped_by_env_pool(env_id) or preset.atari_native


def _without_mode(settings: Mapping[str, Any]) -> dict[str, Any]:
    """EnvPool knows no ``render_mode``."""
    return {name: value for name, value in settings.items() if name != "render_mode"}
