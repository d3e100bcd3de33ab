"""Procgen's sixteen games (Cobbe et al. 2020, arXiv 1912.01588), as EnvPool carries them."""

from __future__ import annotations

from typing import Any

from proximo.envs.adapters.env_pool import env_pool_task, make_env_pool
from proximo.envs.vector.normalize import VecNormalize
from proximo.envs.vector.vec_env import VecEnv
from proximo.errors import near_matches

GAMES = (
    "bigfish",
    "bossfight",
    "caveflyer",
    "chaser",
    "climber",
    "coinrun",
    "dodgeball",
    "fruitbot",
    "heist",
    "jumper",
    "leaper",
    "maze",
    "miner",
    "ninja",
    "plunder",
    "starpilot",
)
DISTRIBUTION_MODES = ("easy", "hard", "extreme", "memory", "exploration")  # every game has the first two


def make_procgen_env(
    game: str = "bigfish",
    num_envs: int = 64,
    seed: int = 1,
    num_levels: int = 200,
    start_level: int = 0,
    distribution_mode: str = "easy",
    gamma: float | None = 0.99,
    **settings: Any,
) -> VecEnv:
    """``num_envs`` copies of a Procgen game: images [env, 3, 64, 64] uint8, 15 actions.

    Levels are ``start_level`` to ``start_level + num_levels − 1``, all there are if ``num_levels`` is 0. Rewards are
    divided by the running deviation of their discounted sum (``gamma``) and clipped to ±10, as in the published
    trainings; ``gamma=None`` shows them as they are. ``episode`` in the infos always has the game's own rewards. A
    game that runs out of time is truncated. ``settings`` go to ``envpool.make``, such as ``num_threads``.
    """
    task_id = _task_id(game, distribution_mode)
    games = make_env_pool(
        task_id, num_envs, seed, extra="procgen", num_levels=num_levels, start_level=start_level, **settings
    )
    return games if gamma is None else VecNormalize(games, norm_obs=False, gamma=gamma)


def is_procgen_id(env_id: str) -> bool:
    """Whether this is EnvPool's name of a Procgen game.

    >>> is_procgen_id("StarpilotHard-v0"), is_procgen_id("CartPole-v1")
    (True, False)
    """
    return any(env_id == _task_id(game, mode) for game in GAMES for mode in DISTRIBUTION_MODES)


def is_stepped_by_env_pool(env_id: str) -> bool:
    """Whether an id is of Procgen's or names EnvPool (``envpool:Pong-v5``)."""
    return is_procgen_id(env_id) or env_pool_task(env_id) is not None


def procgen_id(env_id: str) -> str:
    """EnvPool's name for ``procgen:starpilot``, ``procgen:starpilot-easy``, or the id of the procgen package.

    Without a mode it is hard, as there. Any other id stays as it is.

    >>> procgen_id("procgen:starpilot"), procgen_id("procgen:maze-easy"), procgen_id("procgen:procgen-coinrun-v0")
    ('StarpilotHard-v0', 'MazeEasy-v0', 'CoinrunHard-v0')
    """
    package, separator, name = env_id.partition(":")
    if not separator or package != "procgen":
        return env_id
    game, _, mode = name.removeprefix("procgen-").removesuffix("-v0").partition("-")
    return _task_id(game, mode or "hard")


def _task_id(game: str, distribution_mode: str) -> str:
    """EnvPool's name of a game.

    >>> _task_id("bigfish", "easy")
    'BigfishEasy-v0'
    """
    if game not in GAMES:
        raise ValueError(f"Procgen has no game {game!r}: {near_matches(game, GAMES)} (all: {', '.join(GAMES)})")
    if distribution_mode not in DISTRIBUTION_MODES:
        raise ValueError(
            f"distribution_mode is {distribution_mode!r}: {near_matches(distribution_mode, DISTRIBUTION_MODES)}"
        )
    return f"{game.capitalize()}{distribution_mode.capitalize()}-v0"
