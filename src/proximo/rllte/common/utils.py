"""What rllte's scripts use beside its classes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proximo.functional.schedules import LinearSchedule
from proximo.networks.optimizers import update_learning_rate
from proximo.rllte.paths import absent


class eval_mode:
    """Agents (anything with ``training`` and ``mode``) in evaluation mode, for a while."""

    def __init__(self, *models: Any) -> None:
        self.models = models

    def __enter__(self) -> None:
        self._before = [model.training for model in self.models]
        for model in self.models:
            model.mode(False)

    def __exit__(self, *error: object) -> None:
        for model, training in zip(self.models, self._before, strict=True):
            model.mode(training)


def to_numpy(xs: tuple[Tensor, ...]) -> tuple[Any, ...]:
    """The first row of each tensor as an array."""
    return tuple(x[0].cpu().numpy() for x in xs)


def pretty_json(hp: Mapping[str, Any]) -> str:
    """JSON with every line indented by a tab."""
    return "".join(f"\t{line}" for line in json.dumps(hp, indent=2).splitlines(keepends=True))


def get_episode_statistics(infos: Mapping[str, Any]) -> tuple[list[float], list[int]]:
    """Returns and lengths of the episodes that ended at a step of a ``TorchVecEnv``."""
    if "episode" not in infos:
        return [], []
    ended = np.nonzero(infos["episode"]["l"])
    return infos["episode"]["r"][ended].tolist(), infos["episode"]["l"][ended].tolist()


def linear_lr_scheduler(optimizer: torch.optim.Optimizer, steps: int, total_num_steps: int, initial_lr: float) -> None:
    """Lower the learning rate linearly to 0."""
    update_learning_rate(optimizer, LinearSchedule(initial_lr, 0.0, 1.0)(1.0 - steps / total_num_steps))


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
