"""Train one of rllte's agents on CartPole and print its steps per second: the same script for both libraries.

python benchmarks/rllte_work.py proximo.rllte PPO 64 32768
python benchmarks/rllte_work.py rllte PPO 64 32768            # with the interpreter that has rllte
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time

import torch


def mend_rllte() -> None:
    """rllte's PPG views tensors that are not contiguous on the CPU and would stop at its first auxiliary phase."""
    strict_view = torch.Tensor.view

    def view(tensor: torch.Tensor, *shape: object) -> torch.Tensor:
        try:
            return strict_view(tensor, *shape)
        except RuntimeError:
            return tensor.reshape(*shape)

    torch.Tensor.view = view


def train(library: str, algorithm: str, hidden_dim: int, steps: int) -> float:
    make_env = importlib.import_module(f"{library}.env").make_rllte_env
    agent_class = getattr(importlib.import_module(f"{library}.agent"), algorithm)
    asynchronous = os.environ.get("ASYNCHRONOUS", "1") == "1"  # the default of make_rllte_env
    env = make_env("CartPole-v1", num_envs=8, seed=1, device="cpu", asynchronous=asynchronous)
    agent = agent_class(env=env, device="cpu", tag="speed", hidden_dim=hidden_dim)
    start = time.perf_counter()
    agent.train(num_train_steps=steps, log_interval=10, save_interval=1000)
    return steps / (time.perf_counter() - start)


def main() -> None:
    library, algorithm, hidden_dim, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(int(os.environ.get("THREADS", "1")))
    if library == "rllte":
        mend_rllte()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # both libraries write their logs here
        train(library, algorithm, hidden_dim, 2048)  # warms up
        speed = train(library, algorithm, hidden_dim, steps)
    print(f"speed {speed}")


if __name__ == "__main__":
    main()
