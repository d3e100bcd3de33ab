"""Makers of vector environments that take and give tensors, under rllte's names."""

from __future__ import annotations

from typing import Any

from proximo.envs.adapters.torch_vec_env import TorchVecEnv as TorchVecEnv
from proximo.envs.make_tensors import make_atari_env as make_atari_env
from proximo.envs.make_tensors import make_bitflipping_env as make_bitflipping_env
from proximo.envs.make_tensors import make_box_env as make_box_env
from proximo.envs.make_tensors import make_bullet_env as make_bullet_env
from proximo.envs.make_tensors import make_discrete_env as make_discrete_env
from proximo.envs.make_tensors import make_envpool_atari_env as make_envpool_atari_env
from proximo.envs.make_tensors import make_envpool_procgen_env as make_envpool_procgen_env
from proximo.envs.make_tensors import make_minigrid_env as make_minigrid_env
from proximo.envs.make_tensors import make_multibinary_env as make_multibinary_env
from proximo.envs.make_tensors import make_multidiscrete_env as make_multidiscrete_env
from proximo.envs.make_tensors import make_procgen_env as make_procgen_env
from proximo.envs.make_tensors import make_tensor_env
from proximo.envs.testing.environments import BitFlippingEnv as BitFlippingEnv
from proximo.rllte.paths import absent

make_rllte_env = make_tensor_env


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
