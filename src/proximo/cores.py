"""The cores that this process may use, and how processes beside each other share them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

CORES_VARIABLE = "PROXIMO_CORES"
"""How many cores a process may use, set for those that the library starts beside each other."""
THREADS_VARIABLE = "OMP_NUM_THREADS"
THREADS_VARIABLES = (THREADS_VARIABLE, "MKL_NUM_THREADS")
SHARED_OUT_VARIABLE = "PROXIMO_THREADS"
"""What the library itself set ``OMP_NUM_THREADS`` to, so that it is not taken for the user's wish."""


def bound_cores() -> int:
    """The cores that the system lets this process run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_cores(variables: Mapping[str, str] = os.environ) -> int:
    """The cores for this process, where others that train together with it, or beside it, need theirs.

    >>> usable_cores({"PROXIMO_CORES": "1"}), usable_cores({"LOCAL_WORLD_SIZE": "1000"})
    (1, 1)
    """
    cores = bound_cores()
    if CORES_VARIABLE in variables:
        return max(1, min(cores, int(variables[CORES_VARIABLE])))
    if "LOCAL_WORLD_SIZE" in variables:  # torchrun's processes on this machine
        return max(1, cores // int(variables["LOCAL_WORLD_SIZE"]))
    if "SLURM_CPUS_PER_TASK" in variables and "SLURM_PROCID" in variables:
        return max(1, min(cores, int(variables["SLURM_CPUS_PER_TASK"])))
    return cores


def shared_out(processes: int) -> dict[str, str]:
    """Variables for that many processes beside each other: none of them takes the others' cores.

    A number of threads that the user has set stays; one that was shared out to this process is shared further.
    """
    share = str(max(1, usable_cores() // processes))
    if threads_are_asked_for():
        return {CORES_VARIABLE: share}
    return {CORES_VARIABLE: share, THREADS_VARIABLE: share, SHARED_OUT_VARIABLE: share}


def threads_are_asked_for(variables: Mapping[str, str] = os.environ) -> bool:
    """Whether the user's environment variables say how many threads to compute with.

    >>> threads_are_asked_for({}), threads_are_asked_for({"OMP_NUM_THREADS": "4"})
    (False, True)
    >>> threads_are_asked_for({"OMP_NUM_THREADS": "4", "PROXIMO_THREADS": "4"})
    False
    """
    own = variables.get(SHARED_OUT_VARIABLE)
    return any(name in variables and variables[name] != own for name in THREADS_VARIABLES)


@cache
def physical_cores() -> int:
    """The bound cores without the second threads of each (hyper-threading), where the system tells."""
    if not hasattr(os, "sched_getaffinity"):
        return bound_cores()
    folder = Path("/sys/devices/system/cpu")
    try:
        siblings = {
            (folder / f"cpu{number}/topology/thread_siblings_list").read_text() for number in os.sched_getaffinity(0)
        }
    except OSError:
        return bound_cores()
    return len(siblings)
