"""The packages whose versions decide whether a resumed training repeats the uninterrupted one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any

from proximo.envs import VecEnv
from proximo.training.run_folder import package_version

PACKAGES = ("proximo", "gymnasium", "numpy", "numba", "torch")
# environments of gymnasium that another package computes, and packages that another one stands on
_BEHIND = {
    "gymnasium.envs.mujoco": ("mujoco",),
    "gymnasium.envs.box2d": ("box2d",),
    "pybullet_envs_gymnasium": ("pybullet",),
}


def versions_of(env: VecEnv) -> dict[str, str]:
    """Versions of the packages that a training on ``env`` computes with, by name."""
    names = [*PACKAGES]
    for module in _modules_of(env):
        names += _distributions().get(module.partition(".")[0], ())
        names += [name for start, behind in _BEHIND.items() if module.startswith(start) for name in behind]
    versions = {name: package_version(name) for name in dict.fromkeys(names)}
    return {name: version for name, version in versions.items() if version is not None}


def differences(then: Any, now: Mapping[str, str]) -> list[str]:
    """What is not as a checkpoint says that it was, in words."""
    if not isinstance(then, Mapping):
        return ["the versions of packages in the checkpoint cannot be read"]
    return [
        f"{name!s:.60} is {now.get(name, 'not installed')}, it was {version!s:.40}"
        for name, version in then.items()
        if now.get(name) != version
    ]


def _modules_of(env: VecEnv) -> list[str]:
    """The modules that define the environments, of those that gymnasium made."""
    try:
        specs = env.get_attr("spec")
    except AttributeError:
        specs = [getattr(env, "spec", None)]
    points = {_module_of(getattr(spec, "entry_point", None)) for spec in specs}
    return sorted(points - {""})


def _module_of(entry_point: Any) -> str:
    if isinstance(entry_point, str):
        return entry_point.partition(":")[0]
    return str(getattr(entry_point, "__module__", ""))


@cache
def _distributions() -> Mapping[str, list[str]]:
    """The packages that a module may come from."""
    return metadata.packages_distributions()
