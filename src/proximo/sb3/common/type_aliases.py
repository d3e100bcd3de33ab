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
from proximo.other_libraries import names_from
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

_OFF_POLICY = ("DictReplayBufferSamples", "ReplayBufferSamples", "RolloutReturn", "TrainFreq", "TrainFrequencyUnit")
__getattr__ = names_from(__name__, dict.fromkeys(_OFF_POLICY, "stable_baselines3.common.type_aliases"))
