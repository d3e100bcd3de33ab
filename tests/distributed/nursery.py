"""A process that has imported everything and forks others on request: starting Python and PyTorch takes seconds.

Reads requests as lines of JSON, answers each with the process numbers of its children. Run by ``launching.py``.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import group_functions
import torch
import trainings

from proximo.backends.fused import kernels

MODULES = {module.__name__: module for module in (trainings, group_functions, kernels)}


def be_child(rank: int, request: dict[str, Any]) -> int:
    """What a process of its own would do; returns its exit code."""
    output = os.open(request["printed"][rank], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(request["variables"][rank])
    try:
        function = getattr(MODULES[request["module"]], request["name"])
        result = function(*pickle.loads(Path(request["arguments"]).read_bytes()))
        Path(f"{request['result']}{rank}").write_bytes(pickle.dumps(result))
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children vanish when they end
    torch.set_num_threads(1)
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        children = []
        for rank in range(len(request["variables"])):
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                code = be_child(rank, request)
                Path(f"{request['result']}{rank}.code").write_text(str(code))
                os._exit(code)
            children.append(child)
        print(json.dumps(children), flush=True)


if __name__ == "__main__":
    main()
