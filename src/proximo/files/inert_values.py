"""Spaces and arrays as pickles say them, in inert form, for programs that read nothing but pickles."""

from __future__ import annotations

import pickle
from typing import Any

from gymnasium import spaces

from proximo.data import Array
from proximo.files.restricted_pickle import Inert, read_pickle


def inert_value(value: spaces.Space[Any] | Array) -> Inert:
    """What a pickle of a value says. Writing a pickle runs nothing of a file's."""
    return read_pickle(pickle.dumps(value, protocol=4)).value
