"""What is said when an environment needs a package that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import gymnasium as gym

from proximo.errors import MissingExtraError

_PACKAGE_AND_EXTRA = {  # word in gymnasium's message → what to install
    "pygame": ("pygame", "classic"),  # before box2d: gymnasium names its own extra, box2d, where only pygame is missing
    "mujoco": ("mujoco", "mujoco"),
    "box2d": ("box2d", "box2d"),
    "ale": ("ale-py", "atari"),
    "opencv": ("opencv-python-headless", "atari"),
}


@contextmanager
def naming_the_extra(purpose: str) -> Iterator[None]:
    """Turn gymnasium's ``DependencyNotInstalled`` into an error with this library's install command."""
    try:
        yield
    except gym.error.DependencyNotInstalled as error:
        message = str(error).lower()
        for word, (package, extra) in _PACKAGE_AND_EXTRA.items():
            if word in message:
                raise MissingExtraError(package, extra, purpose) from error
        raise
