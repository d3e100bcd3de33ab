"""Experiment trackers as outputs of the logger: Weights & Biases, MLflow, trackio."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from proximo.errors import near_matches

if TYPE_CHECKING:
    from proximo.training.trackers.base import TrackedRun

TRACKERS = ("wandb", "mlflow", "trackio")
"""What ``configure(folder, [...])`` and ``proximo train --track`` know beside TensorBoard."""


def tracker_class(name: str) -> type[TrackedRun]:
    """The tracker of that name; its module imports no package of the tracker."""
    if name not in TRACKERS:
        raise ValueError(f"{name!r} is no tracker; {near_matches(name, TRACKERS)}")
    if name == "wandb":
        from proximo.training.trackers.weights_and_biases import WandbRun

        return WandbRun
    if name == "mlflow":
        from proximo.training.trackers.mlflow_store import MlflowRun

        return MlflowRun
    from proximo.training.trackers.trackio_store import TrackioRun

    return TrackioRun


def check_tracker(name: str) -> None:
    """Refuse, before anything is trained, a tracker whose package is missing or whose store cannot be reached."""
    tracker_class(name).check()


def make_tracker(
    name: str, folder: str | os.PathLike[str], resume: bool = False, group: str | None = None
) -> TrackedRun:
    """A run of the tracker ``name``: a new one, or with ``resume`` the one whose id ``folder`` holds."""
    return tracker_class(name)(folder, resume, group)
