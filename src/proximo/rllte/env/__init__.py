"""Makers of vector environments that take and give tensors, under rllte's names."""

from __future__ import annotations

from typing import Any

from proximo.errors import absent_name
from proximo.rllte.env.atari import make_atari_env as make_atari_env
from proximo.rllte.env.atari import make_envpool_atari_env as make_envpool_atari_env
from proximo.rllte.env.bullet import make_bullet_env as make_bullet_env
from proximo.rllte.env.minigrid import make_minigrid_env as make_minigrid_env
from proximo.rllte.env.procgen import make_envpool_procgen_env as make_envpool_procgen_env
from proximo.rllte.env.procgen import make_procgen_env as make_procgen_env
from proximo.rllte.env.testing import make_bitflipping_env as make_bitflipping_env
from proximo.rllte.env.testing import make_box_env as make_box_env
from proximo.rllte.env.testing import make_discrete_env as make_discrete_env
from proximo.rllte.env.testing import make_multibinary_env as make_multibinary_env
from proximo.rllte.env.testing import make_multidiscrete_env as make_multidiscrete_env
from proximo.rllte.env.utils import make_rllte_env as make_rllte_env
from proximo.rllte.env.vec_env import TorchVecEnv as TorchVecEnv

_ABSENT = frozenset(
    {"make_craftax_env", "make_dmc_env", "make_envpool_vizdoom_env", "make_mario_env", "make_miniworld_env"}
)


def __getattr__(name: str) -> Any:
    explanation = "; give make_rllte_env an id or a callable that makes the environment"
    raise absent_name(__name__, name, explanation if name in _ABSENT else "")
