"""Environments to try code on."""

from proximo.envs.make_tensors import make_bitflipping_env as make_bitflipping_env
from proximo.envs.make_tensors import make_box_env as make_box_env
from proximo.envs.make_tensors import make_discrete_env as make_discrete_env
from proximo.envs.make_tensors import make_multibinary_env as make_multibinary_env
from proximo.envs.make_tensors import make_multidiscrete_env as make_multidiscrete_env
