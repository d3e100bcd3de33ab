"""Compiled code is kept for the next process, in its own place, and its absence breaks nothing."""

from __future__ import annotations

import os
import pickle
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
from proximo.compilation import inlined, kernel, linked

@inlined
def double(x):
    return 2 * x

@linked("int64(int64)")
def next_number(x):
    return double(x) + 1

@inlined
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


TRAININGS = """
import hashlib
from proximo import A2C, PPO, make_vec_env
from proximo.envs.testing.environments import IdentityEnvMultiBinary, IdentityEnvMultiDiscrete

for name, algorithm, env, options in (
    ("discrete", PPO, "CartPole-v1", {}),
    ("rmsprop", A2C, "CartPole-v1", {}),
    ("box", PPO, "Pendulum-v1", {}),
    ("state dependent", PPO, "Pendulum-v1", {"use_sde": True}),
    ("multidiscrete", PPO, IdentityEnvMultiDiscrete, {}),
    ("multibinary", PPO, IdentityEnvMultiBinary, {}),
):
    model = algorithm("MlpPolicy", make_vec_env(env, 2, seed=0), n_steps=32, seed=0, **options).learn(128)
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.policy.parameters())
    print(model.backend, name, hashlib.sha256(weights).hexdigest())
"""


def test_the_process_that_compiles_rounds_as_those_that_load(tmp_path):
    """The first training on a machine is the same as its repetition, to the bit."""
    variables = {**os.environ, "PROXIMO_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", TRAININGS]
    first, second = (
        subprocess.run(command, env=variables, capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert "compiling kernels, once" in first.stderr
    assert "compiling" not in second.stderr
    assert first.stdout.count("fused") == 6
    assert first.stdout == second.stdout


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


# ------------------------------------------------------------------------------------------- who may write the cache


@pytest.mark.skipif(os.name == "nt", reason="folders have modes")
class TestCacheOfStrangers:
    """numba unpickles what it keeps: the folder must be the user's, and nobody else may put anything into it."""

    def test_new_folders_are_the_users_alone(self, tmp_path: Path) -> None:
        before = os.umask(0)  # the worst
        try:
            assert compilation.usable(tmp_path / "cache" / "kernels" / "name")
        finally:
            os.umask(before)
        for name in ("cache", "cache/kernels", "cache/kernels/name"):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
    @pytest.mark.parametrize("place", ["cache", "cache/kernels", "cache/kernels/name"])
    def test_folders_that_others_may_write_are_refused(self, tmp_path: Path, place: str, mode: int) -> None:
        folder = tmp_path / "cache" / "kernels" / "name"
        folder.mkdir(parents=True)
        (tmp_path / place).chmod(mode)
        if mode == 0o1777 and place != "cache/kernels/name":  # as in /tmp, nobody can exchange what is not theirs
            assert compilation.usable(folder)
            return
        with pytest.warns(UserWarning, match=rf"others may write to .*: chmod go-w .*{place}.*every process compiles"):
            assert not compilation.usable(folder)

    def test_a_group_of_many_is_others(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        tmp_path.chmod(0o770)
        monkeypatch.setattr(compilation, "_is_own_group", lambda group: False)
        assert "chmod go-w" in (compilation.stranger_in(tmp_path) or "")
        monkeypatch.setattr(compilation, "_is_own_group", lambda group: True)
        assert compilation.stranger_in(tmp_path) is None

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives folders away")
    def test_the_folder_of_somebody_else_is_refused_by_root_too(self, tmp_path: Path) -> None:
        folder = tmp_path / "cache"
        folder.mkdir(mode=0o700)
        os.chown(folder, 12345, 12345)
        with pytest.warns(UserWarning, match=r"belongs to user 12345, not to 0: remove it, or choose another folder"):
            assert not compilation.usable(folder)
        (folder / "own").mkdir(mode=0o700)
        os.chown(folder / "own", 0, 0)
        assert "belongs to user 12345" in (compilation.stranger_in(folder / "own") or "")

    def test_a_planted_cache_runs_nothing(self, tmp_path: Path) -> None:
        """A kernel compiled into a folder that anybody may write is not read back from it."""
        cache = {"PROXIMO_CACHE_DIR": str(tmp_path / "cache")}
        assert run(tmp_path, **cache).stdout.split() == ["15", "False", "0"]
        for index in (tmp_path / "cache").rglob("*.nbi"):
            index.write_bytes(pickle.dumps(Planted(tmp_path / "marker")))
        os.chmod(tmp_path / "cache", 0o777)
        done = run(tmp_path, **cache)
        assert done.stdout.split() == ["15", "False", "0"]
        assert "chmod go-w" in done.stderr
        assert not (tmp_path / "marker").exists()


class Planted:
    """Unpickles to a file that is made."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)
