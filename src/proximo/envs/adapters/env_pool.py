"""EnvPool's environments, stepped by its own threads, as vector environments of the library."""

from __future__ import annotations

from typing import Any

import numpy as np

from proximo.data import Observation, StepArrays
from proximo.envs.adapters.as_vec_env import as_vec_env
from proximo.envs.adapters.qt import load_qt
from proximo.envs.vector.vec_env import StepTransform, VecEnv
from proximo.errors import MissingExtraError, near_matches

PREFIX = "envpool:"


def env_pool_task(env_id: str) -> str | None:
    """EnvPool's name of an environment that the command line calls ``envpool:Pong-v5``; None for other ids.

    >>> env_pool_task("envpool:Pong-v5"), env_pool_task("CartPole-v1")
    ('Pong-v5', None)
    """
    return env_id.removeprefix(PREFIX) if env_id.startswith(PREFIX) else None


def is_env_pool_atari(env_id: str) -> bool:
    """Whether this is an Atari game that EnvPool runs, as ``envpool:Pong-v5``."""
    task = env_pool_task(env_id)
    if task is None:
        return False
    registered = _imported(task, "envpool").registration.registry.specs.get(task)
    return registered is not None and registered[0] == "envpool.atari"


def _imported(task_id: str, extra: str) -> Any:
    try:
        import envpool
    except ModuleNotFoundError as error:
        raise MissingExtraError("envpool", extra, f"the environment {task_id!r}") from error
    return envpool


def make_env_pool(task_id: str, num_envs: int = 1, seed: int = 0, *, extra: str = "envpool", **settings: Any) -> VecEnv:
    """``num_envs`` environments of EnvPool's ``task_id``, seeded here once; ``settings`` go to ``envpool.make``.

    ``extra`` is what an error names when EnvPool is not installed.
    """
    if num_envs < 1:
        raise ValueError(f"num_envs must be at least 1, got {num_envs}")
    envpool = _imported(task_id, extra)
    known = envpool.list_all_envs()
    if task_id not in known:
        raise ValueError(f"EnvPool has no environment {task_id!r}: {near_matches(task_id, known)}")
    if envpool.registration.registry.specs[task_id][0] == "envpool.procgen":
        load_qt()
    return as_vec_env(envpool.make(task_id, env_type="gymnasium", num_envs=num_envs, seed=seed, **settings))


def make_env_pool_atari(task_id: str, num_envs: int = 8, seed: int = 0, **settings: Any) -> VecEnv:
    """Atari from EnvPool with the usual preprocessing: a lost life ends an episode, rewards are shown by their sign.

    As with :func:`proximo.envs.make.make_atari_env`, ``episode`` in the infos reports whole games with the game's
    rewards.
    """
    return VecWholeGames(make_env_pool(task_id, num_envs, seed, **{"episodic_life": True, **settings}))


class VecWholeGames(StepTransform):
    """Show rewards by their sign, and report an episode only where EnvPool says that a game is over, not a life."""

    def __init__(self, venv: VecEnv) -> None:
        """Arguments:
        venv: The vector environment that is wrapped.
        """
        super().__init__(venv)
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)

    def reset(self) -> Observation:
        self._returns[:] = 0.0
        self._lengths[:] = 0
        return self.venv.reset()

    def transform(self, step: StepArrays) -> StepArrays:
        for index, info in step.infos.items():
            life = info.pop("episode")
            self._returns[index] += life["r"]
            self._lengths[index] += life["l"]
            if info["terminated"] or step.truncated[index]:  # the info tells of the game, the flag of the life
                totals = {"r": float(self._returns[index]), "l": int(self._lengths[index])}
                info["episode"] = {**life, **totals}
                self._returns[index] = 0.0
                self._lengths[index] = 0
        return step._replace(rewards=np.sign(step.rewards))
