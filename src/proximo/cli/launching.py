"""Many processes for one training: started by the command line, or by torchrun, which starts them again too."""

from __future__ import annotations

import os
import socket
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from proximo.cli.runs import Run
from proximo.cores import shared_out, usable_cores
from proximo.distributed import join
from proximo.training.run_folder import RunFolderError


def number_of_processes(asked: int | Literal["auto"], environments: int) -> int:
    """How many processes to start: as many as asked for, or one for each core; each steps at least one environment."""
    count = min(usable_cores(), environments) if asked == "auto" else asked
    if count < 1:
        raise ValueError(f"--processes is {count}; expected at least 1, or auto")
    if count > environments:
        raise ValueError(
            f"--processes {count} for {environments} environments: each process steps at least one; give more --envs"
        )
    return count


def launch(words: Sequence[str], processes: int) -> int:
    """Run ``proximo train`` with these words in so many processes of this machine; returns the exit code."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ.update(shared_out(processes))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",
        max_restarts=0,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "proximo", "train", *words)
    except ChildFailedError as error:  # it has said itself what failed
        codes = [failure.exitcode for failure in error.failures.values()]
        return max(codes) if max(codes) > 0 else 128 - min(codes)  # of a process that a signal ended, minus its number
    except SignalException as error:
        return 128 + int(error.sigval)
    return 0


def launch_name() -> str | None:
    """What this launch of processes is called, the same after a restart; None for a process that nobody launched."""
    name = os.environ.get("TORCHELASTIC_RUN_ID")
    # without --rdzv-id, torchrun calls all launches alike; the process that starts this one is its own
    return f"{socket.gethostname()}-{os.getppid()}" if name == "none" else name


def is_restarted() -> bool:
    """Whether torchrun has started these processes again; all of them must ask.

    On several machines not every agent counts a restart: one that hears of another's failure first does not.
    """
    count = float(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    group = join()
    return count > 0 if group is None else group.highest([count], "the start of the training")[0] > 0


def interrupted_run(folder: Path) -> Run | None:
    """The run that this launch trained before its processes were started again."""
    if launch_name() is None or not folder.is_dir():
        return None
    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            run = Run.open(path)
        except (RunFolderError, ValueError, OSError):
            continue
        if run.config.session.get("launch") == launch_name():
            return run
    return None
