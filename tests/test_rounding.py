"""The bounds on rounding hold for float32 against float64, and are too narrow for small mistakes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rounding import assert_same_gradients, assert_same_training

OPTIMIZERS = {
    "Adam": (torch.optim.Adam, {"eps": 1e-5}),
    "Adam with a small eps": (torch.optim.Adam, {"eps": 1e-8}),
    "RMSprop": (torch.optim.RMSprop, {"eps": 1e-5}),
    "SGD": (torch.optim.SGD, {"momentum": 0.9}),
}
MISTAKES = {
    "learning rate": {"rate": 1.01},
    "a term's factor": {"factor": 1.05},
    "mean over n - 1": {"samples": 63},
}
# Adam's steps do not depend on the size of the loss
CASES = [
    (name, mistake)
    for name in OPTIMIZERS
    for mistake in MISTAKES
    if not (name.startswith("Adam") and mistake == "mean over n - 1")
]


def trained(
    kind: type[torch.optim.Optimizer],
    options: dict[str, float],
    dtype: torch.dtype,
    rate: float = 1.0,
    factor: float = 1.0,
    samples: int = 64,
) -> nn.Module:
    """Ten steps of a 64-64 network on two losses, one small."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)).to(dtype)
    network.optimizer = kind(network.parameters(), lr=1e-3 * rate, **options)
    inputs, targets = torch.randn(64, 8).to(dtype), torch.randn(64, 2).to(dtype)
    for _ in range(10):
        outputs = network(inputs)
        loss = (outputs - targets).square().sum() / samples + 0.01 * factor * outputs.abs().mean()
        network.optimizer.zero_grad()
        loss.backward()
        network.optimizer.step()
    for group in network.optimizer.param_groups:
        group["lr"] = 1e-3  # what the other side believes
    return network


def steps_of(name: str) -> dict[str, int]:
    return {"steps": 10} if name == "SGD" else {}  # it does not count them


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_float32_is_float64_up_to_rounding(name):
    exact, rounded = (trained(*OPTIMIZERS[name], dtype) for dtype in (torch.float64, torch.float32))
    assert_same_training(rounded, exact, **steps_of(name))
    pairs = zip(rounded.named_parameters(), exact.parameters(), strict=True)
    assert_same_gradients({key: (one.grad, other.grad) for (key, one), other in pairs})


@pytest.mark.parametrize(("name", "mistake"), CASES)
def test_small_mistakes_are_found(name, mistake):
    exact = trained(*OPTIMIZERS[name], torch.float64)
    wrong = trained(*OPTIMIZERS[name], torch.float32, **MISTAKES[mistake])
    with pytest.raises(AssertionError, match="differ"):
        assert_same_training(wrong, exact, **steps_of(name))


def test_a_wrong_gradient_is_found():
    gradient = torch.linspace(-1, 1, 50)
    assert_same_gradients({"weight": (gradient * (1 + 1e-5), gradient)})
    with pytest.raises(AssertionError, match="weight"):
        assert_same_gradients({"weight": (gradient * (1 + 1e-3), gradient)})
    with pytest.raises(AssertionError, match="bias"):
        assert_same_gradients({"weight": (gradient, gradient), "bias": (torch.tensor([1e-4]), torch.zeros(1))})
