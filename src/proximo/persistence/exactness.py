"""What keeps a resumed training from repeating the uninterrupted one bit for bit: said by name, or an error."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from proximo.errors import NotExactError

ENVIRONMENTS_ARE_RESET = (
    "the checkpoint holds no state of the environments, which could not give it: they are reset and begin new episodes"
)


def say_inexact(reasons: Sequence[str], strict: bool) -> None:
    """Warn that a training goes on, but not exactly, and why; where that is not wanted, an error."""
    if not reasons:
        return
    why = "; ".join(reasons)
    if strict:
        raise NotExactError(f"an exact resume is not possible: {why}; go on without --strict (strict=False)")
    warnings.warn(f"the training goes on, but not bit for bit as without the interruption: {why}", stacklevel=2)
