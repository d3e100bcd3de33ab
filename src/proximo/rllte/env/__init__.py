"""Makers of vector environments that take and give tensors, under rllte's names."""

from __future__ import annotations

from typing import Any

from proximo.errors import absent_name
from proximo.rllte.env.atari import make_atari_env, make_envpool_atari_env
from proximo.rllte.env.bullet import make_bullet_env
from proximo.rllte.env.minigrid import make_minigrid_env
from proximo.rllte.env.procgen import make_envpool_procgen_env, make_procgen_env
from proximo.rllte.env.testing import (
    make_bitflipping_env,
    make_box_env,
    make_discrete_env,
    make_multibinary_env,
    make_multidiscrete_env,
)
from proximo.rllte.env.utils import make_rllte_env
from proximo.rllte.env.vec_env import TorchVecEnv

__all__ = [
    "TorchVecEnv",
    "make_atari_env",
    "make_bitflipping_env",
    "make_box_env",
    "make_bullet_env",
    "make_discrete_env",
    "make_envpool_atari_env",
    "make_envpool_procgen_env",
    "make_minigrid_env",
    "make_multibinary_env",
    "make_multidiscrete_env",
    "make_procgen_env",
    "make_rllte_env",
]

_ABSENT = frozenset(
    {"make_craftax_env", "make_dmc_env", "make_envpool_vizdoom_env", "make_mario_env", "make_miniworld_env"}
)


def __getattr__(name: str) -> Any:
    explanation = "; give make_rllte_env an id or a callable that makes the environment"
    raise absent_name(__name__, name, explanation if name in _ABSENT else "")
