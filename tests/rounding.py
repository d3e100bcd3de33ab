"""How far two computations of the same thing in float32 may lie apart, whatever CPU, vector width or order of sums.

All bounds follow from ε, the spacing of float32 at 1, and from the number of roundings; none was read off a machine.
The errors of n roundings add up like a random walk, to about √n ε of the size of what is summed. The tests' longest
sums have about a thousand terms (a minibatch of up to 330 samples, layers of up to 64 units), so √n is ``SUM`` = 32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

EPSILON = float(np.finfo(np.float32).eps)  # 2⁻²³ ≈ 1.2e-7
SUM = 32

# values, means, log-probabilities, of size 1: three layers, each with its sums
OUTPUTS: dict[str, float] = {"rtol": SUM * EPSILON, "atol": 3 * SUM * EPSILON}  # 4e-6, 1.1e-5
# loss terms: means over samples of outputs' squares, ratios and differences of ratios; after a few steps of training
LOSSES: dict[str, float] = {"rtol": SUM**2 * EPSILON, "atol": 6 * SUM * EPSILON}  # 1.2e-4, 2.3e-5


def assert_same_gradients(pairs: Mapping[str, tuple[Any, Any]]) -> None:
    """Found and expected gradients, or averages of gradients, by the parameters' names.

    Terms that cancel leave their error behind, so the error is in proportion to the largest gradient of the policy,
    not to each: ``SUM`` ε for each of three layers, there and back.
    """
    largest = max((float(abs(expected).max()) for _, expected in pairs.values()), default=0.0)
    for name, (found, expected) in pairs.items():
        atol = 6 * SUM * EPSILON * largest
        np.testing.assert_allclose(found, expected, rtol=SUM**2 * EPSILON, atol=atol, err_msg=name)


class Rounding(NamedTuple):
    """How far parameters may lie apart: half of them, their root mean square, and all of them."""

    half: float
    mean: float
    largest: float


def training_rounding(
    gradient: float, steps: int, learning_rate: float, eps: float | None = None, share: float = 1.0, size: float = 1.0
) -> Rounding:
    """What rounding may do to parameters in this many steps of an optimiser.

    An element's gradient g, of typical size s (``gradient``), comes with an error δ = ``SUM`` ε s. Adam moves the
    element by about lr g / (|g| + eps): where g is small, the division magnifies the error. Let g be spread over the
    elements like a normal distribution of deviation s, so that half of them are above 0.67 s, and the density at 0 is
    0.4 / s:

    - half of the elements move by less than lr δ / (0.67 s) too far a step;
    - the mean square is (lr δ)² ∫ 0.4 / s · dg / (|g| + eps)² = (lr δ)² 0.8 / (s eps);
    - no element moves by more than lr δ / eps too far, nor by more than 2 lr, if its direction turns.

    RMSprop's average starts at 0 and is not corrected: its first step divides by √(1 − α) |g| + eps, and that root is
    ``share``. Without ``eps`` nothing is divided; momentum adds up 1 / ``share`` gradients.
    Each step rounds the parameters themselves, of the given ``size``, once more.
    """
    error = SUM * EPSILON * gradient
    if not gradient or eps is None:
        half = mean = largest = error / share
    else:
        half = error / (0.67 * gradient * share)
        mean = error * math.sqrt(0.8 / (gradient * eps * share))
        largest = min(2.0 / share, error / eps)
    return Rounding(*(steps * (learning_rate * factor + EPSILON * size) for factor in (half, mean, largest)))


def assert_same_training(
    ours: nn.Module, theirs: nn.Module, optimizer: torch.optim.Optimizer | None = None, **settings: Any
) -> None:
    """Both have taken the same steps from the same parameters. Steps, rate and gradients are those of ``theirs``.

    A wrong term, factor or sign moves many elements by a good part of lr; the mean allows about lr / 10,000.
    """
    settings = settings_of(optimizer or theirs.optimizer, theirs) | settings
    allowed = training_rounding(**settings)
    differences = {
        name: (one.detach().double() - other.detach().double()).abs()
        for (name, other), one in zip(theirs.named_parameters(), ours.parameters(), strict=True)
    }
    together = torch.cat([difference.flatten() for difference in differences.values()])
    found = Rounding(float(together.median()), float(together.square().mean().sqrt()), float(together.max()))
    worst = max(differences, key=lambda name: float(differences[name].max()))
    for name, value, limit in zip(Rounding._fields, found, allowed, strict=True):
        assert value <= limit, f"parameters differ ({name}: {value:.2e} > {limit:.2e}; most: {worst}; {settings})"


def settings_of(optimizer: torch.optim.Optimizer, policy: nn.Module) -> dict[str, Any]:
    """The arguments of :func:`training_rounding`, from an optimiser and the gradients of its last step."""
    group = optimizer.param_groups[0]
    share = 1.0
    if "alpha" in group:
        share = math.sqrt(1.0 - group["alpha"])
    elif group.get("momentum"):
        share = 1.0 - group["momentum"]
    counts = [int(state["step"]) for state in optimizer.state.values() if "step" in state]
    gradients = [parameter.grad for parameter in policy.parameters() if parameter.grad is not None]
    return {
        "gradient": root_mean_square(gradients),
        "size": root_mean_square([parameter.detach() for parameter in policy.parameters()]),
        "steps": max(counts, default=0),
        "learning_rate": float(group["lr"]),
        "eps": group.get("eps"),
        "share": share,
    }


def root_mean_square(tensors: list[torch.Tensor]) -> float:
    return float(torch.cat([tensor.flatten() for tensor in tensors]).square().mean().sqrt()) if tensors else 0.0
