"""Names for types, for annotations in users' code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsFloat, TypeAlias

import gymnasium as gym
import torch

from proximo.analysis.evaluation import Predictor
from proximo.data import Array, Minibatch, TensorObservation
from proximo.data import Schedule as Schedule
from proximo.envs import VecEnv
from proximo.training.callbacks import BaseCallback

GymEnv: TypeAlias = gym.Env[Any, Any] | VecEnv
GymObs: TypeAlias = tuple[Any, ...] | dict[str, Any] | Array | int
GymResetReturn: TypeAlias = tuple[GymObs, dict[str, Any]]
GymStepReturn: TypeAlias = tuple[GymObs, float, bool, bool, dict[str, Any]]
AtariResetReturn: TypeAlias = tuple[Array, dict[str, Any]]
AtariStepReturn: TypeAlias = tuple[Array, SupportsFloat, bool, bool, dict[str, Any]]
TensorDict: TypeAlias = dict[str, torch.Tensor]
OptimizerStateDict: TypeAlias = dict[str, Any]
MaybeCallback: TypeAlias = Callable[..., Any] | list[BaseCallback] | BaseCallback | None
PyTorchObs: TypeAlias = TensorObservation
RolloutBufferSamples: TypeAlias = Minibatch
DictRolloutBufferSamples: TypeAlias = Minibatch
PolicyPredictor: TypeAlias = Predictor
