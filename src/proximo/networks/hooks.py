"""Whether somebody listens to a module; whoever computes without calling it has to ask."""

from __future__ import annotations

from torch import nn


def has_hooks(module: nn.Module) -> bool:
    """Whether a call of the module does anything else than its class's ``forward``.

    >>> layer = nn.Linear(2, 2)
    >>> handle = layer.register_forward_hook(print)
    >>> has_hooks(layer), handle.remove(), has_hooks(layer)
    (True, None, False)
    """
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in vars(module)
    )
