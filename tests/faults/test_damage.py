"""Checkpoints that are half-written, cut off, changed, or find no room: noticed, explained, never passed over."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.trainings import SMALL
from proximo import PPO, make_vec_env
from proximo.errors import ModelFileError
from proximo.files import atomic
from proximo.training.checkpoints import CheckpointFolder, PeriodicCheckpoints

NEWEST, PREVIOUS = 64, 32


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> Path:
    """A folder with the checkpoints of a small training."""
    folder = tmp_path_factory.mktemp("checkpoints")
    model = make_model()
    model.learn(NEWEST, callback=PeriodicCheckpoints(folder, every_steps=32, keep_best=False))
    return folder


def make_model() -> Any:
    return PPO("MlpPolicy", make_vec_env("CartPole-v1", 2, seed=1), seed=3, policy_kwargs={"net_arch": [4]}, **SMALL)


def loads(path: Path) -> Any:
    return PPO.load(path, env=make_vec_env("CartPole-v1", 2, seed=1))


# ------------------------------------------------------------------------------------------------- aborted writings


class Killed(BaseException):
    """Stands for the end of the process: nobody catches it, and what would clean up after it does nothing."""


class CountedFile:
    """A file whose writings count as operations."""

    def __init__(self, file: Any, operation: Callable[[], None]) -> None:
        self._file, self._operation = file, operation

    def write(self, data: Any) -> int:
        self._operation()
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> CountedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


@contextlib.contextmanager
def failing_at(number: int, error: BaseException) -> Iterator[list[int]]:
    """Every write, fsync and rename of an atomic writing is an operation; the one with this number fails."""
    count = [0]

    def operation() -> None:
        count[0] += 1
        if count[0] == number:
            raise error

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            operation()
            return function(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atomic.os, "fsync", counted(os.fsync))
        patch.setattr(atomic.os, "replace", counted(os.replace))
        patch.setattr(
            atomic,
            "open",
            lambda *names: CountedFile(Path(names[0]).open(names[1]), operation),  # noqa: SIM115 - closed by its user
            raising=False,
        )
        if isinstance(error, Killed):
            patch.setattr(Path, "unlink", lambda *_, **__: None)
        yield count


@pytest.mark.parametrize("error", [Killed(), OSError(28, "No space left on device")], ids=["killed", "error"])
def test_a_save_aborted_anywhere_leaves_the_old_or_the_new_checkpoint(error, tmp_path, tally):
    model = make_model()
    model.learn(32)
    path = tmp_path / "model_32_steps.zip"
    model.save_checkpoint(path)
    old = path.read_bytes()
    model.learn(32, reset_num_timesteps=False)
    state = model.training_state()
    with failing_at(0, error) as operations:
        model.save_checkpoint(tmp_path / "trial.zip", state)
    new = (tmp_path / "trial.zip").read_bytes()
    assert operations[0] >= 8  # members and directory of the zip, two syncs, a rename
    for number in range(1, operations[0] + 1):
        path.write_bytes(old)
        with (
            tally.case("save aborted at a write, fsync or rename"),
            failing_at(number, error),
            pytest.raises(type(error)) as raised,
        ):
            model.save_checkpoint(path, state)
        assert path.read_bytes() in (old, new)
        assert loads(path).num_timesteps in (32, 64)
        assert CheckpointFolder(tmp_path).newest() == path
        if isinstance(error, OSError):
            assert f"cannot write {path}" in str(raised.value)
            assert "free some space" in str(raised.value)
            assert not list(tmp_path.glob(".proximo-*"))
    CheckpointFolder(tmp_path).prune(3)
    assert not list(tmp_path.glob(".proximo-*"))


# ------------------------------------------------------------------------------------------------------ damaged files


def damages(data: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Truncations and single flipped bits, by turns."""
    chance = random.Random(seed)
    for number in range(count):
        place = chance.randrange(len(data))
        if number % 2:
            yield f"cut to {place} bytes", data[:place]
        else:
            bit = chance.randrange(8)
            yield f"bit {bit} of byte {place}", data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def check_damages(source: Path, folder: Path, count: int, tally: Any, seed: int = 0) -> None:
    shutil.copytree(source, folder)
    checkpoints = CheckpointFolder(folder)
    newest, previous = checkpoints.of(NEWEST), checkpoints.of(PREVIOUS)
    intact = newest.read_bytes()
    for what, damaged in damages(intact, count, seed):
        newest.write_bytes(damaged)
        with tally.case("checkpoint cut off or with a flipped bit"):
            with pytest.raises(ModelFileError) as error:
                pytest.fail(f"{what} was not noticed: {checkpoints.newest()}")
            assert f"intact checkpoint before it is {previous}" in str(error.value), what
    assert loads(previous).num_timesteps == PREVIOUS


def test_damage_is_noticed_and_the_previous_checkpoint_is_named(checkpoints, tmp_path, tally):
    check_damages(checkpoints, tmp_path / "damaged", 60, tally)


@pytest.mark.slow
def test_1000_damages(checkpoints, tmp_path, tally):
    check_damages(checkpoints, tmp_path / "damaged", 1000, tally, seed=1)


def test_when_no_checkpoint_is_intact_the_error_says_so(checkpoints, tmp_path):
    folder = CheckpointFolder(shutil.copytree(checkpoints, tmp_path / "damaged"))
    for path in folder.all():
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ModelFileError, match="no checkpoint before it is intact"):
        folder.newest()


# ------------------------------------------------------------------------------------------- no room, no permission


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """A disk of ``size`` bytes at ``folder``; where mounting is not allowed, a limit on the size of files instead."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode == 0:
        try:
            yield
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def check_full_disk(folder: Path, source: Path, pages: int) -> None:
    """A training whose disk has room for one checkpoint and ``pages`` of the next."""
    first = CheckpointFolder(source).of(PREVIOUS)
    rounded = -(-first.stat().st_size // 4096) + 1
    with small_disk(folder, 4096 * (rounded + pages)):
        kept = folder / first.name
        shutil.copy(first, kept)
        model = loads(kept)
        with pytest.raises(OSError, match=r"cannot write .*model_64_steps\.zip: .*; free some space"):
            model.resume(callback=PeriodicCheckpoints(folder, every_steps=32, keep_best=False))
        assert [path.name for path in folder.iterdir()] == [kept.name]
        assert kept.read_bytes() == first.read_bytes()
        assert CheckpointFolder(folder).newest() == kept


def check_read_only(source: Path) -> None:
    """A training that may not write into the folder of its checkpoints; in a process that is not root."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to everybody else
        folder = Path(name)
        kept = Path(shutil.copy(CheckpointFolder(source).of(PREVIOUS), folder))
        before = kept.read_bytes()
        folder.chmod(0o555)
        callback = PeriodicCheckpoints(folder, every_steps=32)
        callback.init_callback(loads(kept))
        child = os.fork()
        if child == 0:
            os._exit(_try_to_save(callback))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        folder.chmod(0o755)
        assert [path.name for path in folder.iterdir()] == [kept.name]
        assert kept.read_bytes() == before


def _try_to_save(callback: PeriodicCheckpoints) -> int:
    try:
        if os.getuid() == 0:
            os.setuid(65534)
        with pytest.raises(PermissionError, match=r"cannot write .*_steps\.zip: .*; save to a folder that you may"):
            callback.between_iterations()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def check_rooms(source: Path, folder: Path, count: int, tally: Any) -> None:
    for trial in range(count):
        if trial % 2:
            with tally.case("folder of the checkpoints not writable"):
                check_read_only(source)
        else:
            with tally.case("disk full while saving"):
                check_full_disk(folder / f"full {trial}", source, pages=trial // 2 % 5)


def test_a_full_disk_and_a_read_only_folder_leave_the_old_checkpoint(checkpoints, tmp_path, tally):
    check_rooms(checkpoints, tmp_path, 4, tally)


@pytest.mark.slow
def test_50_full_disks_and_read_only_folders(checkpoints, tmp_path, tally):
    check_rooms(checkpoints, tmp_path, 50, tally)
