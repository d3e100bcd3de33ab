"""The environments of a preset: made, wrapped, stacked and normalised as it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from proximo.zoo.wrappers import WrapperEntry, name_and_arguments, wrapper_chain

if TYPE_CHECKING:
    from proximo.envs import VecEnv
    from proximo.zoo.presets import Preset


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
    from proximo.envs import VecFrameStack, VecNormalize
    from proximo.envs.adapters.env_pool import is_env_pool_atari
    from proximo.envs.adapters.procgen import is_stepped_by_env_pool

    count = preset.n_envs if n_envs is None else n_envs
    settings = preset.env_kwargs if render_mode is None else {**preset.env_kwargs, "render_mode": render_mode}
    frames = preset.frame_stack
    if is_env_pool_atari(env_id):
        env, frames = _env_pool_atari(preset, env_id, count, seed, settings, workers), 1
    elif is_stepped_by_env_pool(env_id):
        env = _env_pool(preset, env_id, count, seed, settings, workers)
    elif preset.atari_native and render_mode is None:
        env = _native_atari(preset, env_id, count, seed, settings, workers)
    else:
        env = _copies(preset, env_id, count, seed, settings, workers)
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


def _copies(
    preset: Preset,
    env_id: str,
    count: int,
    seed: int | None,
    settings: Mapping[str, Any],
    workers: Mapping[str, Any] | bool,
) -> VecEnv:
    from proximo.envs import DummyVecEnv, SubprocVecEnv, make_vec_env

    return make_vec_env(
        env_id,
        n_envs=count,
        seed=seed,
        wrapper_class=wrapper_chain(preset.env_wrapper),
        env_kwargs=dict(settings),
        vec_env_cls=SubprocVecEnv if workers else DummyVecEnv,
        vec_env_kwargs=dict(workers) if isinstance(workers, Mapping) else None,
    )


def _env_pool(
    preset: Preset,
    env_id: str,
    count: int,
    seed: int | None,
    settings: Mapping[str, Any],
    workers: Mapping[str, Any] | bool,
) -> VecEnv:
    """EnvPool's environments all at once: it steps them in threads of its own. Procgen's games are among them."""
    from proximo.envs import make_env_pool
    from proximo.envs.adapters.env_pool import env_pool_task

    _refuse_for_env_pool(env_id, workers, preset.env_wrapper)
    task = env_pool_task(env_id)
    extra = "procgen" if task is None else "envpool"
    return make_env_pool(task or env_id, count, 0 if seed is None else seed, extra=extra, **_without_mode(settings))


def _env_pool_atari(
    preset: Preset,
    env_id: str,
    count: int,
    seed: int | None,
    settings: Mapping[str, Any],
    workers: Mapping[str, Any] | bool,
) -> VecEnv:
    """Atari from EnvPool, which does what the preset's wrapper and stack do by itself; the wrapper's skip too."""
    from proximo.envs import make_env_pool_atari
    from proximo.envs.adapters.env_pool import env_pool_task

    others = tuple(entry for entry in preset.env_wrapper if entry != "AtariWrapper")
    _refuse_for_env_pool(env_id, workers, others)
    skipped = {name: value for name, value in _without_mode(settings).items() if (name, value) != ("frameskip", 1)}
    stacked = {"stack_num": preset.frame_stack, **skipped}
    return make_env_pool_atari(env_pool_task(env_id) or env_id, count, 0 if seed is None else seed, **stacked)


def _refuse_for_env_pool(env_id: str, workers: Mapping[str, Any] | bool, wrappers: tuple[WrapperEntry, ...]) -> None:
    if workers or wrappers:
        given = "worker processes" if workers else f"the wrapper {wrappers[0]}"
        raise ValueError(f"{env_id} is stepped by EnvPool in threads of its own, and takes no {given}; leave it out")


def _native_atari(
    preset: Preset,
    env_id: str,
    count: int,
    seed: int | None,
    settings: Mapping[str, Any],
    workers: Mapping[str, Any] | bool,
) -> VecEnv:
    from proximo.envs import make_atari_env

    names = [name_and_arguments(entry) for entry in preset.env_wrapper]
    if workers or [name for name, _ in names] != ["AtariWrapper"]:
        given = "worker processes" if workers else f"the wrappers {[name for name, _ in names]}"
        raise ValueError(
            f"atari_native steps games in threads of ale-py's, wrapped as AtariWrapper does, and takes no {given}; "
            "leave one of them out"
        )
    return make_atari_env(env_id, count, seed, env_kwargs=dict(settings), wrapper_kwargs=dict(names[0][1]), native=True)


def steps_by_itself(preset: Preset, env_id: str) -> bool:
    """Whether the environments are stepped in threads of their own, and take no worker processes."""
    from proximo.envs.adapters.procgen import is_stepped_by_env_pool

    return is_stepped_by_env_pool(env_id) or preset.atari_native


def _without_mode(settings: Mapping[str, Any]) -> dict[str, Any]:
    """EnvPool knows no ``render_mode``."""
    return {name: value for name, value in settings.items() if name != "render_mode"}
