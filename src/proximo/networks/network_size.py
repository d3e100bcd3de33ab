"""Before a file's network is built: is it as large as the weights that come with it?

A few bytes can describe a network of terabytes. Built on torch's ``meta`` device it has shapes but no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from proximo.files.encoding import class_name

MAX_WEIGHTS = 8192  # tensors of a policy; each layer takes some kilobytes before it has any weights
# what building from wrong values raises, torch's failed allocations and shapes that do not fit among them
UNBUILDABLE = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(MemoryError, RuntimeError, TypeError, ValueError),
)


def check_network_size(
    policy_class: Callable[..., nn.Module], arguments: Mapping[str, Any], weights: Mapping[str, torch.Tensor]
) -> None:
    """Raise unless ``policy_class(**arguments)`` has weights of the given shapes; it is not given memory to find out.

    A network with classes of the caller's own is the caller's business: those may not work without memory.
    """
    values = list(_leaves({name: value for name, value in arguments.items() if not name.endswith("_space")}))
    layers = arguments.get("n_lstm_layers", 1)
    most = min(len(weights), MAX_WEIGHTS)
    if len(values) > most + 256 or layers > most:
        raise ValueError(f"it describes more layers than its {len(weights)} weights (at most {MAX_WEIGHTS}) can fill")
    if any(isinstance(value, type) and class_name(value) is None for value in (policy_class, *values)):
        return
    with torch.device("meta"):
        policy = policy_class(**arguments)
    for name, expected in policy.state_dict().items():
        given = weights.get(name)  # what is missing or too much is said when the weights are loaded
        if given is not None and given.shape != expected.shape:
            raise ValueError(
                f"the weight {name} is {tuple(given.shape)}, the network that the file describes has "
                f"{tuple(expected.shape)}"
            )
    described = sum(weight.numel() for weight in policy.parameters())
    held = sum(weight.numel() for weight in weights.values())
    if described > held:
        raise ValueError(f"the network that the file describes has {described} weights, the file holds {held}")


def _leaves(value: Any) -> Iterator[Any]:
    match value:
        case dict():
            for item in value.values():
                yield from _leaves(item)
        case list() | tuple():
            for item in value:
                yield from _leaves(item)
        case _:
            yield value
