"""Settings of the whole suite."""

import os

# one thread per test process: two xdist workers share two cores
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("MPLBACKEND", "Agg")

import torch
from hypothesis import settings

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
# times vary with the machine: no test asserts one
settings.register_profile("proximo", deadline=None)
settings.load_profile("proximo")
