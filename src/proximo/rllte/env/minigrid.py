"""MiniGrid's worlds."""

from __future__ import annotations

import torch

from proximo.envs.make import make_vec_env
from proximo.envs.vector.frame_stack import VecFrameStack
from proximo.envs.vector.transpose import VecTransposeImage
from proximo.envs.wrappers.minigrid import wrap_minigrid
from proximo.rllte.env.utils import worker_options
from proximo.rllte.env.vec_env import TorchVecEnv


def make_minigrid_env(
    env_id: str = "MiniGrid-DoorKey-5x5-v0",
    num_envs: int = 8,
    fully_observable: bool = True,
    fully_numerical: bool = False,
    seed: int = 0,
    frame_stack: int = 1,
    device: torch.device | str = "cpu",
    asynchronous: bool = True,
) -> TorchVecEnv:
    """The whole grid as an image [env, 3 · frame_stack, width, height] uint8, or what the agent sees.

    See :func:`proximo.envs.wrappers.minigrid.wrap_minigrid`; only the image is stacked.
    """
    vec_env = make_vec_env(
        env_id,
        num_envs,
        seed,
        wrapper_class=wrap_minigrid,
        wrapper_kwargs={"fully_observable": fully_observable, "fully_numerical": fully_numerical},
        **worker_options(asynchronous, num_envs),
    )
    if fully_observable and frame_stack > 1:
        vec_env = VecFrameStack(vec_env, frame_stack, channels_order="first")
    if fully_observable:  # a grid may be smaller than its channels are many, so nobody should guess which come first
        vec_env = VecTransposeImage(vec_env, skip=True)
    return TorchVecEnv(vec_env, device)
