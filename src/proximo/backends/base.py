"""The contract of a backend: who acts with a policy, values observations, and updates it from a rollout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proximo.config import UpdateSettings
from proximo.data import Array, Minibatch
from proximo.errors import NonFiniteError
from proximo.functional.losses import LossTerms
from proximo.networks.flat_parameters import FlatParameters
from proximo.rollout.collector import Actor
from proximo.rollout.storage import RolloutBuffer

BackendChoice: TypeAlias = Literal["auto", "fused", "torch"]
Precision: TypeAlias = Literal["float32", "bf16"]
Loss: TypeAlias = Callable[[Minibatch, UpdateSettings], LossTerms]
# [minibatch, term]: the terms of LossTerms, in their order; the loss, the last of them, is NaN where it was skipped
Rows: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class UpdateReport:
    """What an update did."""

    epochs: list[Rows]  # one for each epoch that was begun, the one that target_kl ended among them
    extra: Mapping[str, Array] = field(default_factory=dict)  # further terms of a user's loss, [minibatch] each


class Backend(Actor, Protocol):
    """Runs a policy's network over the policy's own memory."""

    description: str  # "fused", or "torch: " and why
    flat: FlatParameters
    generator: np.random.Generator

    def is_current(self) -> bool:
        """Whether the policy is still as it was bound; if not, a new backend is due."""

    def update(
        self, buffer: RolloutBuffer, orders: NDArray[np.int64], settings: UpdateSettings, loss: Loss
    ) -> UpdateReport:
        """Gradient steps over the minibatches of a full rollout with its advantages.

        Each row of ``orders`` [epoch, sample] says in which order the samples come (sequences, for a policy with
        memory); the short last minibatch of an epoch is kept. ``loss`` is what is descended; kernels have PPO's built
        in, and whoever chooses them sees to it that there is no other. ``NonFiniteError`` for a loss or gradient that
        is not finite, unless ``skip_non_finite`` is set. After the gradient and before the step the approximate KL
        divergence is compared with 1.5 times ``target_kl``: the minibatch that exceeds it ends the update unapplied.
        """


def split_epochs(rows: Rows, minibatches_per_epoch: int) -> list[Rows]:
    """Rows of all minibatches as one array per epoch."""
    return [rows[start : start + minibatches_per_epoch] for start in range(0, len(rows), minibatches_per_epoch)]


def non_finite_update(minibatch: int) -> NonFiniteError:
    """The error that stops a training whose loss or gradient is no number."""
    return NonFiniteError(
        f"NaN or infinity in the loss or its gradient at minibatch {minibatch} of the update; it was not applied, so "
        "the weights are still finite. A smaller learning_rate or max_grad_norm, or VecNormalize around the "
        "environment, usually cures this"
    )
