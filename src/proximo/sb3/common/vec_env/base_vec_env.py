"""The bases of vector environments."""

from proximo.envs import CloudpickleWrapper as CloudpickleWrapper
from proximo.envs import VecEnv as VecEnv
from proximo.envs import VecEnvWrapper as VecEnvWrapper
from proximo.envs import tile_images as tile_images
from proximo.envs.vector.vec_env import VecEnvIndices as VecEnvIndices
from proximo.envs.vector.vec_env import VecEnvObs as VecEnvObs
from proximo.envs.vector.vec_env import VecEnvStepReturn as VecEnvStepReturn
