"""How weights start, by name: ``init_fn`` of rllte's and Hsuanwu's classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from proximo.errors import near_matches

WeightFunction = Callable[..., Any]  # (tensor, gain=…), in place

LAYERS = nn.Linear | nn.Conv2d | nn.ConvTranspose2d
METHODS: dict[str, WeightFunction | None] = {
    "orthogonal": nn.init.orthogonal_,
    "xavier_uniform": nn.init.xavier_uniform_,
    "xavier_normal": nn.init.xavier_normal_,
    "identity": None,
}


def get_init_fn(method: str = "orthogonal") -> Callable[..., None]:
    """A function (module, gain=1) that starts a linear or convolutional layer; ``identity`` leaves it as it is.

    >>> get_init_fn("orthogonl")
    Traceback (most recent call last):
    ValueError: unknown init_fn 'orthogonl'; did you mean 'orthogonal'?
    """
    if method not in METHODS:
        raise ValueError(f"unknown init_fn {method!r}; {near_matches(str(method), METHODS)}")
    weights = METHODS[method]

    def initialize(module: nn.Module, gain: float = 1.0) -> None:
        if weights is None or not isinstance(module, LAYERS):
            return
        weights(module.weight, gain=gain)
        if module.bias is not None:
            nn.init.zeros_(module.bias)

    return initialize
