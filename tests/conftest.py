"""Settings of the whole suite."""

import importlib.util
import os
import sys
import types

# one thread per test process: two xdist workers share two cores
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
collect_ignore_glob = ["*conftest.py"]  # they hold no doctests, and modules of one name cannot be collected together
# times vary with the machine: no test asserts one
settings.register_profile("proximo", deadline=None)
settings.load_profile("proximo")


@pytest.fixture(scope="module")
def rliable():
    """rliable's ``library`` and ``metrics``.

    It needs only ``arch.bootstrap``, but importing ``arch`` runs its models too, which break on pandas 3: so the
    package is entered without its ``__init__``.
    """
    pytest.importorskip("rliable")
    package = types.ModuleType("arch")
    package.__path__ = list(importlib.util.find_spec("arch").submodule_search_locations)
    before = sys.modules.get("arch")
    sys.modules["arch"] = package
    from rliable import library, metrics

    yield types.SimpleNamespace(library=library, metrics=metrics)
    if before is None:
        del sys.modules["arch"]
    else:
        sys.modules["arch"] = before
