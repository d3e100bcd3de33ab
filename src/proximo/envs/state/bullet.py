"""The state of PyBullet's environments: two files of the simulator, and what the Python objects around it remember.

``saveBullet`` holds the whole of a simulation; put into a simulation with the same bodies, in this process or another,
it goes on to the same bit. Resets go back to the simulation of the first one, so that is kept too.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from proximo.data import Array
from proximo.envs.state.plain import plain_copy
from proximo.errors import EnvironmentStateError

MODULES = ("gym_locomotion_envs", "gym_manipulator_envs", "gym_pendulum_envs")
_OF_THE_PROCESS = frozenset({"physicsClientId", "ownsPhysicsClient", "stateId", "_np_random_seed"})
_PLAIN = (bool, int, float, str, np.ndarray, np.generic, type(None))


def is_bullet(kind: str) -> bool:
    """Whether a class name is that of an environment of ``pybullet_envs_gymnasium`` whose state is known here."""
    package, _, rest = kind.partition(".")
    return package == "pybullet_envs_gymnasium" and rest.partition(".")[0] in MODULES


def take_bullet(env: Any) -> dict[str, Any]:
    client, first = getattr(env, "_p", None), getattr(env, "stateId", -1)
    if env.physicsClientId < 0 or client is None:
        raise EnvironmentStateError(f"{type(env).__name__} has no simulation before its first reset")
    now = client.saveState()
    files = {"now": _saved(client)}
    if first >= 0:
        client.restoreState(first)
        files["first"] = _saved(client)
        client.restoreState(now)
    client.removeState(now)
    return {"files": files, "env": _remembered(env), "robot": _remembered(env.robot)}


def put_bullet(env: Any, state: Mapping[str, Any]) -> None:
    env.reset()  # makes the bodies, whose states the files hold
    files = state["files"]
    if "first" in files:
        _restore(env._p, files["first"])
        if env.stateId >= 0:
            env._p.removeState(env.stateId)
        env.stateId = env._p.saveState()
    _restore(env._p, files["now"])
    for thing, values in ((env, state["env"]), (env.robot, state["robot"])):
        for name, value in values.items():
            setattr(thing, name, plain_copy(value, name))


def _saved(client: Any) -> Array:
    """The simulation as bytes [length] uint8."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.bullet")
        client.saveBullet(path)
        return np.fromfile(path, np.uint8)


def _restore(client: Any, contents: Array) -> None:
    # a name of its own for every file: the simulator remembers contents by name
    with tempfile.NamedTemporaryFile(suffix=".bullet") as stream:
        stream.write(np.asarray(contents, np.uint8).tobytes())
        stream.flush()
        client.restoreState(fileName=stream.name)


def _remembered(thing: Any) -> dict[str, Any]:
    """The plain attributes of an object; others are parts of the simulation, which has them."""
    return {
        name: plain_copy(value, name)
        for name, value in vars(thing).items()
        if name not in _OF_THE_PROCESS and _is_plain(value)
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN) and getattr(value, "dtype", np.dtype(bool)).kind != "O"
