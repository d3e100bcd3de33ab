"""Reading within a number of steps: calls of functions, Python's own too. Making an input is not counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

STEPS = 2**18  # a load takes a tenth of it


def counted(read: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What reading gives; AssertionError where it takes more steps than any file needs."""
    left = STEPS

    def count(_frame: object, _event: object, _argument: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            sys.setprofile(None)
            raise AssertionError(f"more than {STEPS} steps")

    sys.setprofile(count)
    try:
        return read(*arguments, **options)
    finally:
        sys.setprofile(None)
