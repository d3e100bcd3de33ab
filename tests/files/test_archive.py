"""The model file: round trips, paths, and faults while writing."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proximo.errors import ModelFileError
from proximo.files.archive import TENSOR_TYPES, Budgets, read_archive, write_archive

Groups = dict[str, dict[str, torch.Tensor]]


def example_tensors(seed: int = 0) -> Groups:
    generator = torch.Generator().manual_seed(seed)
    return {
        "policy": {"weight": torch.randn(4, 3, generator=generator), "bias": torch.randn(4, generator=generator)},
        "random": {"torch": torch.arange(16, dtype=torch.uint8)},
    }


def equal(first: Groups, second: Groups) -> bool:
    """Same groups, names, types, shapes and bits."""
    if {group: set(parts) for group, parts in first.items()} != {group: set(parts) for group, parts in second.items()}:
        return False
    return all(
        tensor.dtype == second[group][name].dtype
        and tensor.shape == second[group][name].shape
        and bits(tensor) == bits(second[group][name])
        for group, parts in first.items()
        for name, tensor in parts.items()
    )


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def as_bytes(manifest: dict[str, Any], tensors: Groups) -> bytes:
    stream = io.BytesIO()
    write_archive(stream, manifest, tensors)
    return stream.getvalue()


# ------------------------------------------------------------------------------------------------------ round trips

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)
manifests = st.dictionaries(
    st.text().filter(lambda key: key not in ("format", "format_version", "members")), json_values, max_size=5
)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(list(TENSOR_TYPES.values())))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    seed = draw(st.integers(0, 2**31))
    raw = torch.randint(-100, 100, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return raw.transpose(0, -1) if len(shape) > 1 and draw(st.booleans()) else raw


groups = st.dictionaries(
    st.from_regex(r"\A[A-Za-z][A-Za-z0-9_]{0,20}\Z"),
    st.dictionaries(st.text(min_size=1).filter(lambda name: name != "__metadata__"), tensors(), max_size=4),
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(manifests, groups)
def test_what_was_written_is_read(manifest: dict[str, Any], content: Groups) -> None:
    data = as_bytes(manifest, content)
    read_manifest, read_tensors = read_archive(io.BytesIO(data))
    assert read_manifest == manifest
    assert list(read_manifest) == list(manifest)
    assert equal(read_tensors, content)
    assert as_bytes(read_manifest, read_tensors) == data


def test_special_float_bits_survive() -> None:
    values = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])
    _, loaded = read_archive(io.BytesIO(as_bytes({}, {"policy": {"w": values}})))
    assert bits(loaded["policy"]["w"]) == bits(values)


def test_views_of_one_buffer_and_trained_parameters_are_written_apart() -> None:
    flat = torch.nn.Parameter(torch.arange(12.0))
    content = {"policy": {"first": flat[:6].view(2, 3), "transposed": flat.view(3, 4).t(), "whole": flat}}
    _, loaded = read_archive(io.BytesIO(as_bytes({}, content)))
    assert loaded["policy"]["transposed"].tolist() == flat.view(3, 4).t().tolist()
    loaded["policy"]["first"].zero_()
    assert loaded["policy"]["whole"].tolist() == flat.tolist()
    assert not loaded["policy"]["whole"].requires_grad


def test_equal_content_gives_equal_bytes_whatever_the_time_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    content = example_tensors()
    first = as_bytes({"a": 1}, content)
    monkeypatch.setattr(time, "time", lambda: 2e9)
    reversed_order = {group: dict(reversed(content[group].items())) for group in reversed(content)}
    assert as_bytes({"a": 1}, reversed_order) == first


def test_the_file_is_an_ordinary_zip(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "model.zip", {"algorithm": "PPO"}, example_tensors())
    assert path is not None
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["manifest.json", "policy.safetensors", "random.safetensors"]
        manifest = json.loads(archive.read("manifest.json"))
        data = archive.read("policy.safetensors")
    assert manifest["format"] == "proximo-model"
    assert manifest["format_version"] == 1
    assert manifest["algorithm"] == "PPO"
    assert manifest["members"]["policy.safetensors"] == {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    assert torch.equal(safetensors.torch.load(data)["bias"], example_tensors()["policy"]["bias"])


# ------------------------------------------------------------------------------------------------------------ paths


def test_suffix_and_folders_as_stable_baselines3(tmp_path: Path) -> None:
    assert write_archive(str(tmp_path / "ppo_cartpole"), {"a": 1}, {}) == tmp_path / "ppo_cartpole.zip"
    assert write_archive(tmp_path / "new" / "folder" / "best.model", {"a": 2}, {}) == tmp_path / "new/folder/best.model"
    assert read_archive(tmp_path / "ppo_cartpole")[0] == {"a": 1}
    assert read_archive(str(tmp_path / "ppo_cartpole.zip"))[0] == {"a": 1}
    assert read_archive(tmp_path / "new" / "folder" / "best.model")[0] == {"a": 2}


def test_a_folder_of_the_same_name_does_not_hide_the_file(tmp_path: Path) -> None:
    (tmp_path / "ppo").mkdir()
    write_archive(tmp_path / "ppo", {"a": 1}, {})
    assert read_archive(tmp_path / "ppo")[0] == {"a": 1}


def test_a_stream_is_read_wherever_it_stands() -> None:
    stream = io.BytesIO()
    assert write_archive(stream, {"a": 1}, {}) is None
    assert read_archive(stream)[0] == {"a": 1}
    stream.seek(7)
    assert read_archive(stream)[0] == {"a": 1}
    assert not stream.closed


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    write_archive(tmp_path / "real.zip", {"a": 1}, {})
    (tmp_path / "latest.zip").symlink_to("real.zip")
    write_archive(tmp_path / "latest", {"a": 2}, {})
    assert (tmp_path / "latest.zip").is_symlink()
    assert read_archive(tmp_path / "real.zip")[0] == {"a": 2}


def test_the_file_has_the_rights_of_an_ordinary_file(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        path = write_archive(tmp_path / "m", {}, {})
    finally:
        os.umask(previous)
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_missing_file_names_both_candidates(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no model file .*absent or .*absent\.zip"):
        read_archive(tmp_path / "absent")


def test_a_folder_is_no_model_file_but_may_hold_one(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="is a folder"):
        read_archive(tmp_path)
    write_archive(tmp_path / "model.zip", {}, {})
    with pytest.raises(ModelFileError, match=r"did you mean .*model\.zip\?"):
        read_archive(tmp_path)


@pytest.mark.parametrize("wrong", [None, 3, io.StringIO("text")])
def test_neither_path_nor_binary_stream(wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected a path or a binary stream"):
        read_archive(wrong)
    with pytest.raises(TypeError, match="expected a path or a binary stream"):
        write_archive(wrong, {}, {})


def test_a_stream_that_cannot_seek() -> None:
    read_end, write_end = os.pipe()
    os.close(write_end)
    with open(read_end, "rb") as pipe, pytest.raises(ModelFileError, match=r"io\.BytesIO"):
        read_archive(pipe)


# --------------------------------------------------------------------------------------------- refused when writing


@pytest.mark.parametrize(
    ("manifest", "content", "kind", "message"),
    [
        ({"members": 1}, {}, ValueError, "belong to the file format"),
        ({"a": float("nan")}, {}, TypeError, "not plain JSON"),
        ({"a": object()}, {}, TypeError, "not plain JSON"),
        ({"a": (1, 2)}, {}, TypeError, "changes on its way"),
        ({"a": {1: 2}}, {}, TypeError, "changes on its way"),
        ({"a": {1: 2, "1": 3}}, {}, ValueError, "repeats a key"),
        ({"a": "x" * (5 * 2**20)}, {}, ValueError, "budget"),
        ({}, {"../policy": {}}, ValueError, "no short identifier"),
        ({}, {"p" * 49: {}}, ValueError, "no short identifier"),
        ({}, {f"group{index}": {} for index in range(64)}, ValueError, "at most 63"),
        ({}, {"policy": {"__metadata__": torch.zeros(1)}}, ValueError, "reserved"),
        (
            {},
            {"policy": {"w": torch.zeros(1, dtype=torch.complex64)}},
            TypeError,
            "policy/w is torch.strided torch.compl",
        ),
        ({}, {"policy": {"w": torch.zeros(2, 2).to_sparse()}}, TypeError, "sparse"),
        ({}, {"policy": {"w": [1.0]}}, TypeError, "policy/w is list"),
    ],
)
def test_what_could_not_be_read_is_not_written(
    manifest: Any, content: Any, kind: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        write_archive(tmp_path / "m", manifest, content)
    assert list(tmp_path.iterdir()) == []


def test_nested_and_circular_manifests_are_refused() -> None:
    nested: Any = 1
    for _ in range(32):
        nested = [nested]
    with pytest.raises(ValueError, match="deeper than 32"):
        as_bytes({"a": nested}, {})
    as_bytes({"a": nested[0]}, {})
    circular: list[Any] = []
    circular.append(circular)
    with pytest.raises(TypeError, match="not plain JSON"):
        as_bytes({"a": circular}, {})


def test_budgets_hold_for_both_directions() -> None:
    content = {"policy": {"w": torch.zeros(1000)}}
    with pytest.raises(ValueError, match="pass larger budgets"):
        write_archive(io.BytesIO(), {}, content, Budgets(total_bytes=4000))
    data = as_bytes({}, content)
    with pytest.raises(ModelFileError, match="budget"):
        read_archive(io.BytesIO(data), Budgets(total_bytes=4000))
    with pytest.raises(ModelFileError, match="budget"):
        read_archive(io.BytesIO(data), Budgets(members=1))
    with pytest.raises(ModelFileError, match="budget"):
        read_archive(io.BytesIO(data), Budgets(json_bytes=100))


# --------------------------------------------------------------------------------------------- faults while writing


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "model.zip")


@contextmanager
def failing_call(monkeypatch: pytest.MonkeyPatch, name: str, which: int, error: BaseException) -> Iterator[None]:
    """The ``which``-th call of a function of ``os`` fails; the others reach the real one."""
    real: Callable[..., Any] = getattr(os, name)
    calls = 0

    def sometimes(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == which:
            raise error
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, sometimes)
        yield
    assert calls >= which, f"the fault was never reached: {calls} calls of os.{name}"


@pytest.mark.parametrize(("call", "which", "survivor"), [("fsync", 1, 1), ("replace", 1, 1), ("fsync", 2, 2)])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_fault_at_each_system_call_leaves_one_whole_file(
    call: str, which: int, survivor: int, error: BaseException, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second fsync is that of the folder, when the new file has already taken its place."""
    path = tmp_path / "model.zip"
    write_archive(path, {"a": 1}, example_tensors(1))
    with failing_call(monkeypatch, call, which, error), pytest.raises(type(error)):
        write_archive(path, {"a": 2}, example_tensors(2))
    manifest, loaded = read_archive(path)
    assert manifest == {"a": survivor}
    assert equal(loaded, example_tensors(survivor))
    assert leftovers(tmp_path) == []


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The kernel fails every write beyond ``size`` bytes of a file, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fills_up_at_any_byte_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    write_archive(path, {"a": 1}, example_tensors(1))
    before = path.read_bytes()
    new_size = len(as_bytes({"a": 2}, example_tensors(2)))
    for size in [*range(0, new_size, 37), new_size - 1]:
        with largest_file(size), pytest.raises(OSError, match=r"cannot write .*model\.zip.*free some space") as caught:
            write_archive(path, {"a": 2}, example_tensors(2))
        assert caught.value.errno == errno.EFBIG
        assert path.read_bytes() == before
        assert leftovers(tmp_path) == []
    with largest_file(new_size):
        write_archive(path, {"a": 2}, example_tensors(2))
    assert read_archive(path)[0] == {"a": 2}


def test_a_process_killed_while_saving_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    content = {"policy": {"w": torch.arange(50_000.0)}}
    write_archive(path, {"round": -1}, content)
    delays = random.Random(0)
    seen = set()
    for _ in range(8):
        child = os.fork()
        if child == 0:
            try:
                for count in range(10**6):
                    write_archive(path, {"round": count}, content)
            finally:
                os._exit(1)
        time.sleep(delays.uniform(0.005, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        manifest, loaded = read_archive(path)
        assert equal(loaded, content)
        seen.add(manifest["round"])
    assert seen != {-1}, "no child ever saved"


def test_a_folder_that_may_not_be_written() -> None:
    """In a process without the rights of root, for whom no folder is read-only."""
    script = (
        "import os, sys\n"
        "from proximo.files.archive import write_archive\n"
        "if os.geteuid() == 0:\n    os.setuid(65534)\n"
        "try:\n    write_archive(sys.argv[1], {'a': 2}, {})\n"
        "except PermissionError as error:\n    print(error)\n"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_archive(folder / "model.zip", {"a": 1}, {})
        folder.chmod(0o555)
        command = [sys.executable, "-c", script, str(folder / "model.zip")]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "model.zip: Permission denied; save to a folder that you may write to" in result.stdout
        assert read_archive(folder / "model.zip")[0] == {"a": 1}
        assert leftovers(folder) == []
        folder.chmod(0o755)


def test_other_impossible_targets_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.zip").mkdir()
    with pytest.raises(OSError, match="a part of the path is a file"):
        write_archive(tmp_path / "file" / "model", {}, {})
    with pytest.raises(IsADirectoryError, match="that is a folder"):
        write_archive(tmp_path / "folder.zip", {}, {})
    with pytest.raises(OSError, match="choose a shorter name"):
        write_archive(tmp_path / ("x" * 300), {}, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.zip"]


def test_a_file_changed_by_a_zip_program_without_compression_still_loads(tmp_path: Path) -> None:
    if shutil.which("zip") is None or shutil.which("unzip") is None:
        pytest.skip("needs the programs zip and unzip")
    path = write_archive(tmp_path / "model.zip", {"a": 1}, example_tensors())
    subprocess.run(["unzip", "-q", str(path), "-d", str(tmp_path / "parts")], check=True)
    parts = tmp_path / "parts"
    subprocess.run(["zip", "-q", "-0", "-r", str(tmp_path / "again.zip"), "."], cwd=parts, check=True)
    manifest, content = read_archive(tmp_path / "again.zip")
    assert manifest == {"a": 1}
    assert equal(content, example_tensors())
