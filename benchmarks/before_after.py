"""Measure this tree against another revision of it, row by row of the speed table.

Both trees take turns, each in a process of its own that stays alive, so what the machine does to one it does to the
other; a row's verdict is the median of the ratios of neighbouring turns, with a bootstrap interval of 95 %.

    python -m benchmarks.before_after HEAD~20                   # every row, about 15 minutes
    python -m benchmarks.before_after v0.1.0 --only CartPole --turns 15
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.run import as_markdown, show
from benchmarks.works import WORKS

TREE = Path(__file__).resolve().parents[1]
# runs in the folder of its tree: `benchmarks` and `proximo` are those of that revision
TURNS = """
import os, sys, warnings
import torch
from benchmarks.works import WORKS, prepare
warnings.filterwarnings("ignore", category=UserWarning)
work = next(work for work in WORKS if work.name == sys.argv[1])
results = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # PyBullet prints to the standard output
do_the_work = prepare(work, True, work.workers)
for _ in sys.stdin:
    print(do_the_work(), file=results)
"""


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """A temporary worktree of the revision."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", tree, revision], cwd=TREE, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=TREE, check=True)


class Tree:
    """One revision at one work."""

    def __init__(self, folder: Path, work: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", TURNS, work],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def turn(self) -> float:
        """Samples per second."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process in {self._process.args} ended with {self._process.wait()}")
        return float(answer)

    def close(self) -> None:
        self._process.communicate()


def measure(name: str, before: Path, turns: int) -> list[str]:
    """A row of the table; the order within a pair of turns alternates."""
    trees = (Tree(before, name), Tree(TREE, name))
    for tree in trees:
        tree.turn()  # compiles the kernels where nothing is cached
    speeds = np.empty((turns, 2))
    for turn in range(turns):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            speeds[turn, side] = trees[side].turn()
    for tree in trees:
        tree.close()
    ratios = speeds[:, 1] / speeds[:, 0]
    draws = np.random.default_rng(0).choice(ratios, (2_000, turns))
    low, high = np.quantile(np.median(draws, axis=1), (0.025, 0.975))
    old, new = np.median(speeds, axis=0)
    best_old, best_new = np.max(speeds, axis=0)
    return [
        name,
        f"{old:,.0f}",
        f"{new:,.0f}",
        f"{np.median(ratios):.3f}",
        f"[{low:.3f}, {high:.3f}]",
        f"{best_new / best_old:.3f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="the revision to compare with")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--turns", type=int, default=9, help="pairs of turns per row")
    arguments = parser.parse_args()
    console = Console()
    rows = [["work", "before", "after", "ratio", "95 % interval", "ratio of the best turns"]]
    with ExitStack() as stack:
        before = stack.enter_context(checkout(arguments.revision))
        for name in [work.name for work in WORKS if arguments.only in work.name]:
            with console.status(name):
                rows.append(measure(name, before, arguments.turns))
            console.print(" | ".join(rows[-1]), highlight=False)
    show(console, f"{arguments.revision} against this tree, steps per second", rows)
    print(as_markdown(rows))


if __name__ == "__main__":
    main()
