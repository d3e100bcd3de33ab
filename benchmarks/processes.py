"""What only a whole process shows: import time, peak memory, and the first run on a fresh machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

LIBRARIES = {"Stable-Baselines3": "stable_baselines3", "Proximo": "proximo.sb3"}  # proximo alone imports lazily

EXAMPLE = """
from {library} import PPO
from {library}.common.env_util import make_vec_env

model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=4), seed=0)
model.learn(total_timesteps={steps})
"""

# not ru_maxrss, which a child process takes over from its parent
PEAK = """
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        print(int(line.split()[1]) / 1024)
"""


def _run(code: str, environment: dict[str, str] | None = None) -> tuple[float, str]:
    start = time.perf_counter()
    finished = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    return time.perf_counter() - start, finished.stdout


def import_seconds(library: str, repeats: int = 5) -> float:
    """The quickest of several imports; the first ones read from a cold disk."""
    return min(_run(f"import {library}")[0] for _ in range(repeats))


def peak_megabytes(library: str, steps: int = 25_000) -> float:
    return float(_run(EXAMPLE.format(library=library, steps=steps) + PEAK)[1].split()[-1])


def first_run_seconds(library: str, steps: int = 25_000) -> float:
    """The 25,000-step example in a new process with an empty kernel cache: imports, compilation and training."""
    with tempfile.TemporaryDirectory() as cache:
        return _run(EXAMPLE.format(library=library, steps=steps), {"PROXIMO_CACHE_DIR": cache})[0]
