"""Compiled code is kept for the next process, in its own place, and its absence breaks nothing."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from proximo import compilation

KERNELS = """
import numba
from proximo.compilation import inlined, inner, kernel, linked

@inlined
def double(x):
    return 2 * x

@linked("int64(int64)")
def next_number(x):
    return double(x) + 1

@inner
def twice(x):
    return next_number(next_number(x))

@kernel("int64(int64)")
def run(x):
    return twice(x)

print(run(3), bool(numba.config.CACHE_DIR), sum(run.stats.cache_hits.values()))
"""


def run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "some_kernels.py").write_text(KERNELS)
    variables = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"} | environment
    command = [sys.executable, "-W", "always", "-c", "import some_kernels"]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("variable", ["PROXIMO_CACHE_DIR", "XDG_CACHE_HOME"])
def test_the_second_process_finds_the_code_of_the_first(tmp_path, variable):
    environment = {"PROXIMO_CACHE_DIR": "", variable: str(tmp_path / "cache")}
    first, second = run(tmp_path, **environment), run(tmp_path, **environment)
    assert first.stdout.split() == ["15", "False", "0"]
    assert first.stderr.count("compiling kernels, once") == 1
    assert second.stdout.split() == ["15", "False", "1"]
    assert second.stderr == ""
    assert list((tmp_path / "cache").rglob("*.nbi"))
    assert not list(tmp_path.glob("__pycache__/*.nbi"))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the names are those of x86-64")
def test_another_cpu_has_its_own_code(tmp_path):
    """Two machines that share a home folder: each compiles once for itself, and neither disturbs the other's code."""
    cache = {"PROXIMO_CACHE_DIR": str(tmp_path / "cache")}
    machines = [{"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features} for features in ("", "+sse4.2,+avx")]
    machines.append({"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""})
    folders: list[Path] = []
    for machine in machines:
        assert run(tmp_path, **cache, **machine).stdout.split() == ["15", "False", "0"]
        new = set((tmp_path / "cache" / "kernels").iterdir()) - set(folders)
        assert len(new) == 1, "the same CPU name with other features is another CPU too"
        folders += new
        assert f"-{machine['NUMBA_CPU_NAME']}-" in folders[-1].name
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.nb?")}
    for machine in machines:
        again = run(tmp_path, **cache, **machine)
        assert again.stdout.split() == ["15", "False", "1"]
        assert again.stderr == ""
    assert written == {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.nb?")}


def test_without_a_folder_to_write_to_it_compiles_in_memory_and_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    done = run(tmp_path, PROXIMO_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert done.stdout.split() == ["15", "False", "0"]
    assert "set PROXIMO_CACHE_DIR to a folder that can be written" in done.stderr


def test_changed_sources_have_another_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PROXIMO_CACHE_DIR", str(tmp_path))
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "a.py").write_text("one")
    before = compilation.cache_folder(sources)
    assert compilation.cache_folder(sources) == before
    (sources / "a.py").write_text("two")
    after = compilation.cache_folder(sources)
    assert after != before
    assert after.parent == before.parent == tmp_path / "kernels"
    assert numba.__version__ in after.name


def test_importing_the_package_does_not_import_numba():
    code = "import sys, proximo, proximo.backends.fused; print('numba' in sys.modules, 'llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_elementary_functions_are_as_good_as_float32():
    from proximo.backends.fused import elementary

    @numba.njit
    def evaluate(x, exponential, hyperbolic, logistic, finite):
        for place in range(len(x)):
            exponential[place] = elementary.exp(x[place])
            hyperbolic[place] = elementary.tanh(x[place])
            logistic[place] = elementary.sigmoid(x[place])
            finite[place] = elementary.is_finite(x[place])

    special = [np.nan, np.inf, -np.inf, 0.0, 88.36, 88.8, -87.3, -87.4, -104.0, 1e30, -1e30]
    x = np.concatenate([np.linspace(-100, 100, 200_001), np.linspace(-1, 1, 100_001), special]).astype(np.float32)
    results = [np.empty_like(x) for _ in range(3)]
    finite = np.empty(len(x), np.bool_)
    evaluate(x, *results, finite)
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        exponential = np.where(x > elementary.LARGEST, np.inf, np.exp(wide))  # the last of float32's range is given up
        np.testing.assert_allclose(results[0], exponential, rtol=2.4e-7, atol=1.2e-38)
        np.testing.assert_allclose(results[1], np.tanh(wide), atol=3e-7)
        np.testing.assert_allclose(results[2], 1 / (1 + np.exp(-wide)), rtol=1e-6, atol=1e-30)
    np.testing.assert_array_equal(finite, np.isfinite(x))
