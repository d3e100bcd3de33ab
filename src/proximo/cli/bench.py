"""``proximo bench``: run the speed comparison of the source tree."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from proximo.cli.console import output

SUMMARY = """Measure the speed against Stable-Baselines3 on this machine.

The comparison is part of the source tree (benchmarks/run.py) and takes its options: proximo bench -- --help shows them.
It needs the test extra: pip install -c constraints.txt -e '.[test]'."""
EXAMPLES = ("proximo bench",)


def run(words: Sequence[str]) -> int:
    if words[:1] in (["-h"], ["--help"]):
        examples = "\n".join(f"  {example}" for example in EXAMPLES)
        output().print(
            f"usage: proximo bench [-h] [OPTIONS OF benchmarks/run.py]\n\n{SUMMARY}\n\nExamples:\n{examples}",
            markup=False,
        )
        return 0
    options = list(words[1:]) if words[:1] == ["--"] else list(words)
    return subprocess.run([sys.executable, "-m", "benchmarks.run", *options], cwd=source_tree(), check=False).returncode


def source_tree() -> Path:
    """The folder that holds ``benchmarks/run.py``: where Proximo was installed from, or the current one."""
    candidates = (Path(__file__).resolve().parents[3], Path.cwd())
    for folder in candidates:
        if (folder / "benchmarks" / "run.py").is_file():
            return folder
    raise FileNotFoundError(
        "the benchmarks live in the source tree (benchmarks/run.py), which an installed package does not hold: "
        "run `make bench` in a checkout of Proximo"
    )
