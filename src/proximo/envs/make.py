"""Make vector environments from an id, a class or a factory."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from proximo.distributed import launch_of
from proximo.envs.dependencies import naming_the_extra
from proximo.envs.vector.dummy import DummyVecEnv, is_wrapped, require_gymnasium_env, unwrap_wrapper
from proximo.envs.vector.vec_env import VecEnv
from proximo.envs.wrappers.atari import AtariWrapper
from proximo.envs.wrappers.minigrid import with_numbers
from proximo.envs.wrappers.monitor import Monitor
from proximo.errors import MissingExtraError, ProximoError, near_matches

__all__ = ["is_wrapped", "make_atari_env", "make_env", "make_vec_env", "unwrap_wrapper"]

MINIGRID_IDS = re.compile(r"^(MiniGrid|BabyAI)-")
ATARI_IDS = re.compile(r"^ALE/|NoFrameskip-v\d+$")


class UnknownEnvironmentError(
    ProximoError, ValueError, gym.error.NameNotFound, gym.error.NamespaceNotFound, gym.error.VersionNotFound
):
    """An id that nobody has registered; gymnasium has one of these three for it."""


class _Plugin(NamedTuple):
    """A package that registers environments when it is imported."""

    module: str
    package: str
    extra: str
    ids: re.Pattern[str]
    registrar: str = ""  # what to import for a package that registers nothing itself


_PLUGINS = (
    _Plugin("ale_py", "ale-py", "atari", ATARI_IDS),
    _Plugin("pybullet_envs_gymnasium", "pybullet_envs_gymnasium", "pybullet", re.compile(r"BulletEnv-v\d+$")),
    _Plugin("minigrid", "minigrid", "minigrid", MINIGRID_IDS),
    _Plugin("minatar", "minatar", "minatar", re.compile(r"^MinAtar/"), "proximo.envs.adapters.minatar"),
)
_OF_GYMNASIUM = {  # where gymnasium keeps environments, and the extra that brings what they import
    "gymnasium.envs.classic_control": "classic",
    "gymnasium.envs.mujoco": "mujoco",
    "gymnasium.envs.box2d": "box2d",
}


def make_env(env_id: str, **env_kwargs: Any) -> gym.Env[Any, Any]:
    """``gymnasium.make`` with ``rgb_array`` rendering where the environment has it, and errors that help."""
    _require_known(env_id)
    with naming_the_extra(f"the environment {env_id!r}"):
        try:
            return gym.make(env_id, **{"render_mode": "rgb_array", **env_kwargs})
        except TypeError:  # its constructor takes no render_mode
            return gym.make(env_id, **env_kwargs)


def _require_known(env_id: str) -> None:
    """Raise ``ValueError`` with near matches for an id that nobody has registered."""
    if ":" in env_id:  # "module:id": gymnasium imports the module, which registers the id
        _require_module(env_id, env_id.partition(":")[0])
        return
    if env_id not in gym.registry:
        _import_plugins(env_id)
    try:
        gym.spec(env_id)
    except gym.error.UnregisteredEnv as error:
        raise UnknownEnvironmentError(
            f"unknown environment id {env_id!r}: {near_matches(env_id, gym.registry)}"
        ) from error
    except gym.error.Error:
        return  # an id without version, or a deprecated one: `gymnasium.make` knows what to do or to say


def _require_module(env_id: str, module: str) -> None:
    try:
        exists = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package that it would be in
        exists = False
    if not exists:
        raise ValueError(
            f"the environment {env_id!r} is registered by {module!r}, and there is no module of that name; install it, "
            "or add its folder to PYTHONPATH (PYTHONPATH=. for the working directory)"
        )


def _import_plugins(env_id: str) -> None:
    for plugin in _PLUGINS:
        if importlib.util.find_spec(plugin.module) is not None:
            importlib.import_module(plugin.registrar or plugin.module)
        elif plugin.ids.search(env_id):
            raise MissingExtraError(plugin.package, plugin.extra, f"the environment {env_id!r}")


def extras_of(env_id: str) -> list[str]:
    """The library's extras that an environment needs; none for environments of one's own.

    >>> extras_of("CartPole-v1"), extras_of("PongNoFrameskip-v4"), extras_of("my_package:Mine-v0")
    (['classic'], ['atari'], [])
    """
    from proximo.envs.adapters.procgen import is_procgen_id, is_stepped_by_env_pool  # which need this module

    if is_stepped_by_env_pool(env_id):
        return ["procgen" if is_procgen_id(env_id) else "envpool"]
    spec = gym.registry.get(env_id)
    module = spec.entry_point.partition(":")[0] if spec is not None and isinstance(spec.entry_point, str) else ""
    by_module = [extra for package, extra in _OF_GYMNASIUM.items() if module.startswith(package)]
    return by_module or [plugin.extra for plugin in _PLUGINS if plugin.ids.search(env_id)]


def versioned_id(env_id: str) -> str:
    """An id of gymnasium's registry with the newest version, if it names none; any other id as it is.

    A game of Procgen's such as ``procgen:starpilot`` gets the name that EnvPool has for it.

    >>> versioned_id("CartPole"), versioned_id("CartPole-v0")
    ('CartPole-v1', 'CartPole-v0')
    """
    if env_id.startswith("procgen:"):
        from proximo.envs.adapters.procgen import procgen_id  # which needs this module

        return procgen_id(env_id)
    if ":" in env_id or re.search(r"-v\d+$", env_id):
        return env_id
    _import_plugins(env_id)
    versions = [spec.version or 0 for spec in gym.registry.values() if spec.id == f"{env_id}-v{spec.version}"]
    return env_id if env_id in gym.registry or not versions else f"{env_id}-v{max(versions)}"


def make_vec_env(
    env_id: str | Callable[..., gym.Env[Any, Any]],
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | Path | None = None,
    wrapper_class: Callable[..., gym.Env[Any, Any]] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    vec_env_cls: type[VecEnv] | None = None,
    vec_env_kwargs: dict[str, Any] | None = None,
    monitor_kwargs: dict[str, Any] | None = None,
    wrapper_kwargs: dict[str, Any] | None = None,
) -> VecEnv:
    """``n_envs`` monitored copies of an environment as one vector environment.

    Each copy is made, wrapped in a ``Monitor`` (writing ``<monitor_dir>/<index>.monitor.csv`` if a folder is given),
    then in ``wrapper_class``; MiniGrid's without one show the agent's view and its mission as one vector, see
    :func:`wrap_minigrid` for others. Copy ``i`` gets the seed ``seed + i`` at the first reset, its action space
    ``seed + start_index + i``. Workers instead of a loop: ``vec_env_cls=SubprocVecEnv``.

    Under ``torchrun`` each process makes ``n_envs`` of its own, and ``i`` counts those of all processes; where they
    make different numbers, a model with a seed puts that right.

    >>> env = make_vec_env("CartPole-v1", n_envs=2, seed=0)
    >>> env.reset().shape
    (2, 4)
    """
    if n_envs < 1:
        raise ValueError(f"n_envs must be at least 1, got {n_envs}")
    if isinstance(env_id, str):
        _require_known(env_id)  # here already, so that no worker process has to say it
    launch = launch_of(os.environ)
    before = 0 if launch is None else launch.rank * n_envs  # environments of the processes before this one
    start_index += before

    def factory(index: int) -> Callable[[], gym.Env[Any, Any]]:
        def make() -> gym.Env[Any, Any]:
            make_one = (lambda **kwargs: make_env(env_id, **kwargs)) if isinstance(env_id, str) else env_id
            env = require_gymnasium_env(make_one(**(env_kwargs or {})))
            if seed is not None:
                env.action_space.seed(seed + index)
            filename = None if monitor_dir is None else os.path.join(monitor_dir, str(index))
            env = Monitor(env, filename=filename, **(monitor_kwargs or {}))
            return with_numbers(env) if wrapper_class is None else wrapper_class(env, **(wrapper_kwargs or {}))

        return make

    factories = [factory(start_index + index) for index in range(n_envs)]
    vec_env = (vec_env_cls or DummyVecEnv)(factories, **(vec_env_kwargs or {}))  # type: ignore[arg-type]
    vec_env.seed(None if seed is None else seed + before)
    return vec_env


def make_atari_env(
    env_id: str | Callable[..., gym.Env[Any, Any]],
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | Path | None = None,
    wrapper_kwargs: dict[str, Any] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    vec_env_cls: type[VecEnv] | None = None,
    vec_env_kwargs: dict[str, Any] | None = None,
    monitor_kwargs: dict[str, Any] | None = None,
    native: bool = False,
) -> VecEnv:
    """:func:`make_vec_env` with the usual Atari preprocessing, see :class:`AtariWrapper`.

    The ``Monitor`` sits inside, so ``episode`` reports whole games with unclipped rewards, and lengths in frames.

    With ``native``, ale-py steps all games at once in threads of its own, and with frames that
    are almost the same (:mod:`proximo.envs.adapters.atari_games` says where they differ). Its games cannot give their
    state: a training resumes exactly in boundary mode.
    """
    if native:
        unused = {"monitor_dir": monitor_dir, "vec_env_cls": vec_env_cls, "vec_env_kwargs": vec_env_kwargs}
        unused["monitor_kwargs"] = monitor_kwargs
        if given := [name for name, value in unused.items() if value]:
            raise ValueError(
                f"native=True steps all games at once and takes no {', '.join(given)}; VecMonitor(env, filename) "
                "writes a file"
            )
        return _native_atari(env_id, n_envs, seed, start_index, env_kwargs or {}, wrapper_kwargs or {})
    return make_vec_env(
        env_id,
        n_envs=n_envs,
        seed=seed,
        start_index=start_index,
        monitor_dir=monitor_dir,
        wrapper_class=AtariWrapper,
        env_kwargs=env_kwargs,
        vec_env_cls=vec_env_cls,
        vec_env_kwargs=vec_env_kwargs,
        monitor_kwargs=monitor_kwargs,
        wrapper_kwargs=wrapper_kwargs,
    )


def _native_atari(
    env_id: Any, n_envs: int, seed: int | None, start_index: int, env_kwargs: dict[str, Any], wrapper: dict[str, Any]
) -> VecEnv:
    from proximo.envs.adapters.atari_games import make_atari_games

    if n_envs < 1:
        raise ValueError(f"n_envs must be at least 1, got {n_envs}")
    if not isinstance(env_id, str):
        raise TypeError(f"native=True takes the id of a game, such as 'PongNoFrameskip-v4', got {env_id!r}")
    _require_known(env_id)
    env = make_atari_games(env_id, n_envs, env_kwargs, **wrapper)
    launch = launch_of(os.environ)
    before = 0 if launch is None else launch.rank * n_envs
    if seed is not None:
        env.action_space.seed(seed + start_index + before)
    env.seed(None if seed is None else seed + before)
    return env
