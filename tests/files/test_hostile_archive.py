"""Model files that are damaged, foreign, or made to do harm: each is refused, none runs anything or takes memory."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import random
import resource
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proximo.errors import ModelFileError
from proximo.files.archive import FORMAT, FORMAT_VERSION, MANIFEST, read_archive, write_archive

Groups = dict[str, dict[str, torch.Tensor]]


def as_bytes(manifest: dict[str, Any], tensors: Groups) -> bytes:
    """The file of this content; equal bytes are the test of equal content."""
    stream = io.BytesIO()
    write_archive(stream, manifest, tensors)
    return stream.getvalue()


# ----------------------------------------------------------------------------------------------------------- damage


def read_or_refuse(data: bytes) -> tuple[dict[str, Any], Groups] | None:
    """The content, or None where the file is refused; any other error fails the test."""
    try:
        return read_archive(io.BytesIO(data))
    except ModelFileError:
        return None


def test_every_truncation_of_a_file_is_noticed() -> None:
    data = as_bytes({"a": 1}, {"policy": {"w": torch.randn(4, 3)}, "random": {"torch": torch.zeros(16)}})
    assert [length for length in range(len(data)) if read_or_refuse(data[:length]) is not None] == []


def test_every_flipped_bit_is_noticed_or_harmless() -> None:
    """All of them on a small file; harmless are bits that no reader uses, such as the stored time of day."""
    manifest, content = {"a": 1}, {"policy": {"w": torch.arange(3.0)}}
    data = as_bytes(manifest, content)
    noticed = 0
    for position in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[position // 8] ^= 1 << position % 8
        result = read_or_refuse(bytes(damaged))
        noticed += result is None
        assert result is None or as_bytes(*result) == data
    assert noticed > 0.7 * 8 * len(data)


def test_random_damage_to_a_real_policy_file(tmp_path: Path) -> None:
    network = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
    content = {"policy": network.state_dict(), "optimizer": {"step": torch.tensor(3.0)}}
    path = write_archive(tmp_path / "model", {"a": 1}, content)
    assert path is not None
    data = path.read_bytes()
    choose = random.Random(1)
    for _ in range(150):
        path.write_bytes(data[: choose.randrange(len(data))])
        with pytest.raises(ModelFileError, match=r"cannot load .*model\.zip"):
            read_archive(path)
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(choose.choice([1, 1, 3, 20])):
            damaged[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        path.write_bytes(damaged)
        result = read_or_refuse(bytes(damaged))
        assert result is None or as_bytes(*result) == data


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    assert read_or_refuse(data) is None
    assert read_or_refuse(b"PK\x03\x04" + data) is None


# ----------------------------------------------------------------------------------------------------- foreign files


def test_a_stable_baselines3_file_is_named(tmp_path: Path) -> None:
    from stable_baselines3 import PPO

    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, device="cpu").save(tmp_path / "theirs")
    with pytest.raises(ModelFileError, match=r"Stable-Baselines3 model file.*proximo convert"):
        read_archive(tmp_path / "theirs")


def zip_of(*members: tuple[str | zipfile.ZipInfo, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return stream.getvalue()


def torch_file() -> bytes:
    stream = io.BytesIO()
    torch.save({"w": torch.zeros(2)}, stream)
    return stream.getvalue()


def old_torch_file() -> bytes:
    stream = io.BytesIO()
    torch.save({"w": torch.zeros(2)}, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"hello", "not a zip"),
        (pickle.dumps({"mean": 0.0}), "is a pickle"),
        (torch_file(), r"torch\.save"),
        (old_torch_file(), "is a pickle"),
        (safetensors.torch.save({"w": torch.zeros(2)}), "not a zip"),
        (zip_of(("readme.txt", b"hello")), r"without manifest\.json"),
        (zip_of((MANIFEST, b'{"manifest_version": 3}')), "states the format None"),
        (zip_of((MANIFEST, b"[]")), "states the format 'list'"),
    ],
)
def test_foreign_files_are_named(data: bytes, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        read_archive(io.BytesIO(data))


# ----------------------------------------------------------------------------------------------------- hostile files


def model_bytes(weights: bytes | None = None, changes: dict[str, Any] | None = None, **members: Any) -> bytes:
    """An archive whose manifest is right about its members, apart from ``changes``."""
    policy = safetensors.torch.save({"w": torch.zeros(2)}) if weights is None else weights
    return zip_of((MANIFEST, manifest_for(policy, changes)), ("policy.safetensors", policy), **members)


def manifest_for(policy: bytes, changes: dict[str, Any] | None = None) -> bytes:
    promise = {"sha256": hashlib.sha256(policy).hexdigest(), "size": len(policy)}
    whole = {"format": FORMAT, "format_version": FORMAT_VERSION, "members": {"policy.safetensors": promise}}
    return json.dumps({**whole, **(changes or {})}).encode()


def safetensors_bytes(header: Any, payload: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload


def raw_tensor(dtype: str, shape: list[int], payload: bytes) -> bytes:
    return safetensors_bytes({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, len(payload)]}}, payload)


def with_member(name: str, data: bytes = b"x", listed: bool = False) -> bytes:
    policy = safetensors.torch.save({"w": torch.zeros(2)})
    promises = {
        member: {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        for member, content in [("policy.safetensors", policy), *([(name, data)] if listed else [])]
    }
    return zip_of((MANIFEST, manifest_for(policy, {"members": promises})), ("policy.safetensors", policy), (name, data))


def with_manifest(text: bytes) -> bytes:
    return zip_of((MANIFEST, text))


def duplicate_member() -> bytes:
    with pytest.warns(UserWarning, match="Duplicate name"):
        return with_member(MANIFEST, manifest_for(b""))


def symbolic_link() -> bytes:
    entry = zipfile.ZipInfo("policy.safetensors")
    entry.create_system = 3
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return zip_of((MANIFEST, manifest_for(b"/etc/passwd")), (entry, b"/etc/passwd"))


def patched_directory(data: bytes, name: bytes, **fields: int) -> bytes:
    """Change what the zip's directory says of a member: flags, method, compressed and full size, header offset."""
    places = {"flags": (8, "<H"), "method": (10, "<H"), "packed": (20, "<L"), "size": (24, "<L"), "offset": (42, "<L")}
    start = data.rindex(b"PK\x01\x02", 0, data.rindex(name))
    changed = bytearray(data)
    for field, value in fields.items():
        offset, form = places[field]
        struct.pack_into(form, changed, start + offset, value)
    return bytes(changed)


def nul_in_name() -> bytes:
    """Python's zipfile shows such a name only up to the NUL."""
    return with_member("other.safetensors-txt").replace(b"other.safetensors-txt", b"other.safetensors\0txt")


def deep(opening: bytes, closing: bytes, levels: int) -> bytes:
    return with_manifest(b'{"a":' + opening * levels + b"1" + closing * levels + b"}")


WEIGHTS = "policy.safetensors"
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "deflate bomb": (lambda: model_bytes(bytes(64 * 2**20), compression=zipfile.ZIP_DEFLATED), "is compressed"),
    "bomb within a bomb": (
        lambda: model_bytes(model_bytes(bytes(64 * 2**20), compression=zipfile.ZIP_DEFLATED)),
        "states a header",
    ),
    "lzma member": (lambda: model_bytes(compression=zipfile.ZIP_LZMA), "is compressed"),
    "directory claims 3 GiB": (
        lambda: patched_directory(model_bytes(), WEIGHTS.encode(), packed=3 * 2**30, size=3 * 2**30),
        "claims more bytes",
    ),
    "directory claims too few bytes": (
        lambda: patched_directory(model_bytes(), WEIGHTS.encode(), packed=10, size=10),
        "cannot be read",
    ),
    "sizes that differ": (lambda: patched_directory(model_bytes(), WEIGHTS.encode(), size=2**20), "is compressed"),
    "deflate called stored": (
        lambda: patched_directory(
            model_bytes(bytes(2**20), compression=zipfile.ZIP_DEFLATED), WEIGHTS.encode(), method=0
        ),
        "is compressed",
    ),
    "header outside the file": (
        lambda: patched_directory(model_bytes(), WEIGHTS.encode(), offset=2**31),
        "cannot be read",
    ),
    "one member under two names": (
        lambda: patched_directory(with_member("other.safetensors", listed=True), b"other.safetensors", offset=0),
        "cannot be read",
    ),
    "100,000 members": (lambda: zip_of(*((f"m{index}", b"") for index in range(100_000))), "directory is longer"),
    "100 members": (
        lambda: zip_of((MANIFEST, b"{}"), *((f"m{i}.safetensors", b"") for i in range(99))),
        "the budget is 64",
    ),
    "encrypted": (lambda: patched_directory(model_bytes(), WEIGHTS.encode(), flags=1), "is encrypted"),
    "strongly encrypted": (lambda: patched_directory(model_bytes(), WEIGHTS.encode(), flags=0x40), "is encrypted"),
    "patched data": (lambda: patched_directory(model_bytes(), WEIGHTS.encode(), flags=0x20), "cannot be read"),
    "duplicate member": (duplicate_member, "lists a member twice"),
    "unlisted member": (lambda: with_member("other.safetensors"), "added or removed"),
    "missing member": (lambda: zip_of((MANIFEST, manifest_for(b""))), "added or removed"),
    "foreign member, listed": (lambda: with_member("run.py", listed=True), "is not of this format"),
    "parent folder": (lambda: with_member("../evil.safetensors", listed=True), "is not of this format"),
    "absolute name": (lambda: with_member("/tmp/evil.safetensors", listed=True), "is not of this format"),
    "drive name": (lambda: with_member("C:\\evil.safetensors", listed=True), "is not of this format"),
    "folder entry": (lambda: with_member("policy/", b""), "is not of this format"),
    "NUL in a name": (nul_in_name, "is not of this format"),
    "name beyond ASCII": (lambda: with_member("pölicy.safetensors", listed=True), "is not of this format"),
    "terminal escapes in a name": (lambda: with_member("\x1b[31m.safetensors"), r"'\\x1b\[31m\.safetensors'"),
    "symbolic link": (symbolic_link, "is a link"),
    "deep lists": (lambda: deep(b"[", b"]", 100_000), "nested deeper"),
    "deep objects": (lambda: deep(b'{"a":', b"}", 100_000), "nested deeper"),
    "brackets hidden by an open string": (lambda: with_manifest(b'["' + b"[" * 100_000), "not valid JSON"),
    "long manifest": (lambda: with_manifest(b'"' + b"a" * (5 * 2**20) + b'"'), "the budget is"),
    "repeated key": (lambda: with_manifest(b'{"format":"proximo-model","format":"x"}'), "repeats a key"),
    "NaN": (lambda: with_manifest(b'{"a":NaN}'), "not finite"),
    "overflowing number": (lambda: with_manifest(b'{"a":1e999}'), "not finite"),
    "huge integer": (lambda: with_manifest(b'{"a":' + b"9" * 100_000 + b"}"), "an integer of 100000 digits"),
    "not UTF-8": (lambda: with_manifest(b'{"a":"\xff"}'), "not valid JSON"),
    "not JSON": (lambda: with_manifest(b"{"), "not valid JSON"),
    "future version": (lambda: model_bytes(changes={"format_version": 2}), r"newer Proximo .*pip install --upgrade"),
    "version no number": (lambda: model_bytes(changes={"format_version": "1"}), "no version number"),
    "version true": (lambda: model_bytes(changes={"format_version": True}), "no version number"),
    "members no table": (lambda: model_bytes(changes={"members": [WEIGHTS]}), "malformed"),
    "promise of other keys": (lambda: model_bytes(changes={"members": {WEIGHTS: {"md5": "", "size": 1}}}), "malformed"),
    "wrong hash": (
        lambda: model_bytes(bytes(80), changes={"members": {WEIGHTS: {"sha256": "0" * 64, "size": 80}}}),
        "does not match",
    ),
    "huge shape": (lambda: model_bytes(raw_tensor("F32", [2**40, 2**40], bytes(4))), "not valid safetensors"),
    "huge shape of nothing": (lambda: model_bytes(raw_tensor("F32", [0, 2**63, 4], b"")), "w"),
    "shape of nothing that overflows": (lambda: model_bytes(raw_tensor("F32", [0, 2**62, 2**62], b"")), "not valid"),
    "offsets outside": (
        lambda: model_bytes(safetensors_bytes({"w": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}})),
        "not valid safetensors",
    ),
    "header longer than the data": (lambda: model_bytes(struct.pack("<Q", 10**6) + b"{}"), "not valid safetensors"),
    "header over budget": (lambda: model_bytes(struct.pack("<Q", 2**62) + b"{}"), "states a header"),
    "deep header": (lambda: model_bytes(safetensors_bytes(b'{"w":' + b"[" * 10**6)), "not valid safetensors"),
    "empty tensor member": (lambda: model_bytes(b""), "not valid safetensors"),
    "unsigned 64 bit": (lambda: model_bytes(raw_tensor("U64", [1], bytes(8))), "the type U64"),
    "complex": (lambda: model_bytes(raw_tensor("C64", [1], bytes(8))), "the type C64"),
    "eight-bit float": (lambda: model_bytes(raw_tensor("F8_E4M3", [1], bytes(1))), "the type F8_E4M3"),
    "unheard-of type": (lambda: model_bytes(raw_tensor("OBJECT", [1], bytes(8))), "the type OBJECT"),
    "truth values of 2": (lambda: model_bytes(raw_tensor("BOOL", [2], b"\x01\x02")), "truth values"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_within_bounded_memory(name: str) -> None:
    build, message = HOSTILE[name]
    data = build()
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=message):
            read_archive(io.BytesIO(data))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(data) + 16 * 2**20


def test_a_bomb_does_not_grow_the_process(tmp_path: Path) -> None:
    """Counts memory outside Python's heap too: a gigabyte of zeros, a megabyte as a file."""
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, manifest_for(b""))
        with archive.open("policy.safetensors", "w") as member:
            for _ in range(256):
                member.write(bytes(4 * 2**20))
    assert path.stat().st_size < 2 * 2**20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError, match="is compressed"):
        read_archive(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024  # KiB


class Payload:
    """Pickles to a command; whoever unpickles it makes the marker."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.marker}'",)


def test_no_pickle_is_ever_run(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    payload = pickle.dumps(Payload(marker))
    saved = io.BytesIO()
    torch.save(Payload(marker), saved)
    places = [
        payload,
        saved.getvalue(),
        zip_of((MANIFEST, payload)),
        model_bytes(payload),
        model_bytes(saved.getvalue()),
        with_member("data.pkl", payload, listed=True),
        with_member("data", payload, listed=True),
        zip_of(("data", payload), ("_stable_baselines3_version", b"2.9.2"), ("policy.pth", saved.getvalue())),
        zip_of(("archive/data.pkl", payload), ("archive/version", b"3")),
        model_bytes(safetensors_bytes({"__metadata__": {"pickle": payload.hex()}}) + payload),
    ]
    for data in places:
        with pytest.raises(ModelFileError):
            read_archive(io.BytesIO(data))
        assert not marker.exists()
    pickle.loads(payload)  # the payload works, so its absence above means something
    assert marker.exists()


def test_metadata_and_unknown_manifest_keys_are_only_text() -> None:
    weights = safetensors.torch.save({"w": torch.ones(2)}, metadata={"class": "os.system"})
    manifest, content = read_archive(io.BytesIO(model_bytes(weights, changes={"class": "os.system"})))
    assert manifest == {"class": "os.system"}
    assert content["policy"]["w"].tolist() == [1.0, 1.0]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(min_size=1, max_size=200), st.integers(0, 10_000))
def test_arbitrary_tensor_members_with_right_hashes_are_refused_or_read(tail: bytes, place: int) -> None:
    """Past the hash check only the parser stands; it must hold on its own."""
    valid = safetensors.torch.save({"w": torch.zeros(3, dtype=torch.int16)})
    start = place % len(valid)
    for weights in (tail, valid[:start] + tail, valid[:start] + tail + valid[start + len(tail) :]):
        result = read_or_refuse(model_bytes(weights))
        assert result is None or all(isinstance(t, torch.Tensor) for t in result[1]["policy"].values())
