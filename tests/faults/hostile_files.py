"""A hundred files and more that want to run code, to eat memory or to write elsewhere, by name."""

from __future__ import annotations

import base64
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import torch

from proximo.files.archive import MANIFEST, read_archive, write_archive
from proximo.files.restricted_pickle import Made, Name, write_pickle

BOMB_BYTES = 280 * 2**20
SB3_FIELDS = ("policy_class", "policy_kwargs", "observation_space", "action_space", "learning_rate", "clip_range")
SB3_FIELDS += ("rollout_buffer_class", "num_timesteps", "n_steps", "seed", "_last_obs")


class Reduced:
    """Pickles to a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def payloads(marker: Path) -> dict[str, bytes]:
    """Pickles that make the marker when somebody unpickles them."""
    command = f"touch '{marker}'"
    code = f"open({str(marker)!r}, 'w').close()"

    def touch(progress: float) -> float:
        marker.touch()
        return progress

    return {
        "os.system": pickle.dumps(Reduced(os.system, command)),
        "eval": pickle.dumps(Reduced(eval, code)),
        "exec, protocol 0": f"c__builtin__\nexec\n(S{code!r}\ntR.".encode(),
        "Popen": pickle.dumps(Reduced(subprocess.Popen, ["touch", str(marker)])),
        "Path.touch": pickle.dumps(Reduced(Path.touch, marker)),
        "call of a lambda": pickle.dumps(Reduced(os.system, command), protocol=2),
        "cloudpickled function": cloudpickle.dumps(Reduced(touch, 1.0)),
        "by attribute": write_pickle(
            Made(Made(Name("builtins", "getattr"), (Name("os", ""), "system"), new=False), (command,), new=False)
        ),
        "in a state": write_pickle(
            Made(Name("gymnasium.spaces.box", "Box"), (), state=Made(Name("os", "system"), (command,), new=False))
        ),
        "as a dtype": write_pickle(Made(Name("numpy", "dtype"), (Made(Name("os", "system"), (command,), new=False),))),
    }


def zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression, compresslevel=1) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def serialized(data: bytes) -> dict[str, str]:
    return {":type:": "<class 'function'>", ":serialized:": base64.b64encode(data).decode()}


def saved_by_torch(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def hostile_files(own: bytes, foreign: bytes, normalizer: bytes, marker: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents, made of one good file of each kind."""
    evil = payloads(marker)
    for name, data in evil.items():
        yield f"pickle: {name}", data
    yield from _foreign_files(foreign, evil)
    yield from _torch_files(foreign, evil)
    yield from _own_files(own, evil)
    yield from _normalizers(normalizer, evil)
    yield from _bombs_and_tricks(own, foreign)


def _foreign_files(foreign: bytes, evil: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    members = members_of(foreign)
    data = json.loads(members["data"])

    def changed(**fields: Any) -> bytes:
        return zipped({**members, "data": json.dumps({**data, **fields}).encode()})

    names = list(evil)
    for index, field in enumerate(SB3_FIELDS):
        for name in (names[index % len(names)], names[(index + 3) % len(names)]):
            if field != "_last_obs":  # not read at all, so that the file loads
                yield f"sb3: {name} in {field}", changed(**{field: serialized(evil[name])})
    nested = write_pickle({"net_arch": [64, 64], "activation_fn": Name("os", "system")})
    yield "sb3: os.system as activation", changed(policy_kwargs=serialized(nested))
    keyed = write_pickle({"optimizer_class": Name("builtins", "eval"), "optimizer_kwargs": {"source": "1"}})
    yield "sb3: eval as optimiser", changed(policy_kwargs=serialized(keyed))
    yield "sb3: no base64", changed(observation_space={":serialized:": "%%%"})
    yield "sb3: serialised number", changed(observation_space={":serialized:": 5})
    yield "sb3: cut pickle", changed(action_space=serialized(b"\x80\x04\x95"))
    yield "sb3: no spaces", changed(observation_space=5, action_space="x")
    yield "sb3: huge layers", changed(policy_kwargs={"net_arch": [2**31, 2**31]})
    yield "sb3: large layers", changed(policy_kwargs={"net_arch": [20_000, 20_000]})
    yield "sb3: many layers", changed(policy_kwargs={"net_arch": [1] * 200_000})
    yield "sb3: negative steps", changed(n_steps=-5)
    yield "sb3: steps beyond all memory", changed(n_steps=2**55, batch_size=2**54)
    yield "sb3: environments beyond all memory", changed(n_envs=2**58)
    yield "sb3: unknown keyword", changed(policy_kwargs={"evil": 1})
    yield "sb3: NaN learning rate", changed(learning_rate=float("nan"))
    yield "sb3: deep data", zipped({**members, "data": b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"})
    yield "sb3: data of millions of lists", zipped({**members, "data": b'{"a":[' + b"[]," * 5 * 10**6 + b"[]]}"})
    yield "sb3: data as pickle", zipped({**members, "data": evil["os.system"]})
    yield "sb3: extra member", zipped({**members, "run.py": b"import os"})
    yield "sb3: parent folder", zipped({**members, "../../policy.pth": b"x"})
    yield "sb3: truncated", foreign[: len(foreign) // 2]
    yield "sb3: no weights", zipped({name: part for name, part in members.items() if name != "policy.pth"})
    deep = b"\x80\x04" + b"N" + b"\x85" * 150_000 + b"."
    yield "sb3: deep tuple", changed(observation_space=serialized(deep))
    yield "sb3: deep tuple as key", changed(policy_kwargs=serialized(b"\x80\x04}N" + b"\x85" * 150_000 + b"Ns."))
    laughs = b"\x80\x04]\x94" + b"".join(b"]\x94(h%ch%ch%ch%ce" % ((i,) * 4) for i in range(60)) + b"."
    yield "sb3: a billion laughs", changed(policy_kwargs=serialized(laughs))
    endless = b"\x80\x04]\x94h\x00a."
    yield "sb3: a list within itself", changed(policy_kwargs=serialized(endless))
    huge = Made(Name("gymnasium.spaces.multi_discrete", "MultiDiscrete"), (), state={"nvec": 2**62})
    yield "sb3: huge space", changed(observation_space=serialized(write_pickle(huge)))
    count = Made(Name("gymnasium.spaces.discrete", "Discrete"), (), state={"n": 10**12, "start": 0})
    yield "sb3: a trillion one-hot inputs", changed(observation_space=serialized(write_pickle(count)))


def _torch_files(foreign: bytes, evil: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    members = members_of(foreign)
    inner = members_of(members["policy.pth"])
    description = next(name for name in inner if name.endswith("data.pkl"))
    for place in ("policy.pth", "policy.optimizer.pth"):
        for name in ("os.system", "eval", "exec, protocol 0"):
            yield f"torch: {name} as {place}", zipped({**members, place: evil[name]})
            yield f"torch: {name} in {place}", zipped({**members, place: zipped({**inner, description: evil[name]})})
        old = io.BytesIO()
        torch.save({"w": torch.zeros(2)}, old, _use_new_zipfile_serialization=False)
        yield f"torch: old format as {place}", zipped({**members, place: old.getvalue()})
        yield f"torch: a whole module as {place}", zipped({**members, place: saved_by_torch(torch.nn.Linear(2, 2))})
        yield f"torch: compressed {place}", zipped({**members, place: zipped(inner, zipfile.ZIP_DEFLATED)})
    bomb = {**inner, "archive/data/0": bytes(BOMB_BYTES)}
    yield "torch: bomb", zipped({**members, "policy.pth": zipped(bomb, zipfile.ZIP_DEFLATED)})
    for name, size, strides in (
        ("expanded to a terabyte", (2**20, 2**20), (0, 0)),
        ("outside its memory", (64, 4), (4, 9)),
        ("of negative stride", (64, 4), (-4, 1)),
    ):
        yield f"torch: tensor {name}", zipped({**members, "policy.pth": _odd_tensor(size, strides)})
    yield "torch: weights of another policy", zipped({**members, "policy.pth": saved_by_torch({"w": torch.ones(3)})})
    yield "torch: a list", zipped({**members, "policy.pth": saved_by_torch([1, 2])})
    empty = saved_by_torch({"state": {}, "param_groups": []})
    yield "torch: optimiser without groups", zipped({**members, "policy.optimizer.pth": empty})
    wrong = saved_by_torch({"state": {10**9: {"step": 1}}, "param_groups": [{"params": [0]}]})
    yield "torch: optimiser of other parameters", zipped({**members, "policy.optimizer.pth": wrong})


def _odd_tensor(size: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """A file of torch.save with one tensor whose description lies."""
    members = members_of(saved_by_torch({"w": torch.zeros(8)}))
    root = next(iter(members)).partition("/")[0]
    name = next(name for name in members if name.endswith("data.pkl"))
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x08tQ"
    numbers = b"".join(
        b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", n) for n in part) + b"t" for part in (size, strides)
    )
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00" + numbers + b"\x89NtR"
    return zipped({**members, name: b"\x80\x02}X\x01\x00\x00\x00w" + tensor + b"s.", f"{root}/version": b"3\n"})


def _own_files(own: bytes, evil: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    members = members_of(own)
    for member in members:
        for name in ("os.system", "cloudpickled function"):
            yield f"own: {name} as {member}", zipped({**members, member: evil[name]})
    yield "own: wrong hash", zipped({**members, "policy.safetensors": bytes(len(members["policy.safetensors"]))})
    yield "own: truncated", own[: 2 * len(own) // 3]
    manifest, tensors = read_archive(io.BytesIO(own))
    fields = manifest["fields"]
    box = {"low": 0.0, "high": 1.0}
    space = {
        "$": "Box",
        "value": {
            side: {"$": "array", "value": {"dtype": "float32", "shape": [2**20, 2**20], "fill": value}}
            for side, value in box.items()
        },
    }
    for name, change in {
        "huge layers": {"policy_kwargs": {"net_arch": [2**31, 2**31]}},
        "large layers": {"policy_kwargs": {"net_arch": [20_000, 20_000]}},
        "huge space": {"observation_space": space},
        "a trillion one-hot inputs": {
            "observation_space": {"$": "Discrete", "value": {"n": 10**12, "start": 0, "dtype": "int64"}}
        },
        "import path as class": {"policy_class": {"$": "class", "value": "os.system"}},
        "unknown kind": {"learning_rate": {"$": "eval", "value": "1"}},
        "a method replaced": {"predict": 5, "learn": 6},
        "policy no class": {"policy_class": "MlpPolicy2"},
        "steps beyond all memory": {"n_steps": 2**60},
        "steps of text": {"n_steps": "2048"},
        "environments negative": {"n_envs": -3},
        "window negative": {"_stats_window_size": -1},
        "layers of text": {"policy_kwargs": {"net_arch": ["a"]}},
    }.items():
        yield f"own: {name}", rewritten({**manifest, "fields": {**fields, **change}}, tensors)
    policy = {"observation_space": fields["observation_space"], "action_space": fields["action_space"]}
    for name, change in {
        "of huge layers": {"net_arch": [2**31, 2**31]},
        "of large layers": {"net_arch": [20_000, 20_000]},
        "of unknown arguments": {"evil": 1},
    }.items():
        described = {"content": "policy", "fields": {**policy, **change}, "needs": {}}
        yield f"own: policy {name}", rewritten(described, {"policy": tensors["policy"]})
    yield "own: no fields", rewritten({**manifest, "fields": []}, tensors)
    yield "own: no tensors", rewritten(manifest, {})
    yield "own: no generator", rewritten({**manifest, "generator": None}, tensors)
    yield "own: weights of another policy", rewritten(manifest, {**tensors, "policy": {"w": torch.zeros(3)}})
    odd = {**tensors, "optimizer": {"x.exp_avg": torch.zeros(1)}}
    yield "own: optimiser of other parameters", rewritten(manifest, odd)
    short = {**tensors, "optimizer": {name: torch.zeros(7) for name in tensors["optimizer"]}}
    yield "own: optimiser of other shapes", rewritten(manifest, short)


def rewritten(manifest: dict[str, Any], tensors: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    write_archive(stream, manifest, tensors)
    return stream.getvalue()


def _normalizers(normalizer: bytes, evil: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    whole = Name("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
    call = Made(Name("os", "system"), ("true",), new=False)
    yield "statistics: code as mean", write_pickle(Made(whole, (), state={"obs_rms": call, "ret_rms": call}))
    yield "statistics: code as class", write_pickle(Made(Name("os", "system"), ("true",), state={"gamma": 1.0}))
    yield "statistics: code as setting", normalizer.replace(b"clip_reward\x94G", b"clip_reward\x94cos\nsystem\n0G")
    yield "statistics: truncated", normalizer[:-20]
    yield "statistics: doubled", normalizer + evil["os.system"]
    shape = {"mean": 2**60, "var": "x", "count": None}
    statistics = Made(Name("stable_baselines3.common.running_mean_std", "RunningMeanStd"), (), state=shape)
    yield "statistics: no numbers", write_pickle(Made(whole, (), state={"obs_rms": statistics, "ret_rms": statistics}))
    text = json.dumps({"__metadata__": {"format": "proximo-vec-normalize-1", "settings": "[" * 10**6}}).encode()
    yield "statistics: deep settings", struct.pack("<Q", len(text)) + text
    array = pickle.dumps(np.zeros(3)).replace(b"K\x03\x85", b"\x8a\x06\xff\xff\xff\xff\xff\x00\x85")
    yield "statistics: array beyond its bytes", array


def _bombs_and_tricks(own: bytes, foreign: bytes) -> Iterator[tuple[str, bytes]]:
    ours, theirs = members_of(own), members_of(foreign)
    zeros = bytes(BOMB_BYTES)
    yield "bomb: weights", zipped({**ours, "policy.safetensors": zeros}, zipfile.ZIP_DEFLATED)
    yield "bomb: manifest", zipped({MANIFEST: zeros}, zipfile.ZIP_DEFLATED)
    yield "bomb: sb3 data", zipped({**theirs, "data": zeros}, zipfile.ZIP_DEFLATED)
    for name in ("../evil.safetensors", "/tmp/evil.safetensors", "policy/../../x", "C:\\x", "data.pkl", "policy.pkl"):
        yield f"name: own with {name}", zipped({**ours, name: b"x"})
        yield f"name: sb3 with {name}", zipped({**theirs, name: b"x"})
    for kind, members in (("own", ours), ("sb3", theirs)):
        stream = io.BytesIO()
        with warnings.catch_warnings(), zipfile.ZipFile(stream, "w") as archive:
            warnings.simplefilter("ignore")
            for name, data in [*members.items(), *members.items()]:
                archive.writestr(name, data)
        yield f"duplicates: {kind}", stream.getvalue()
    yield "empty", b""
    yield "noise", np.random.default_rng(0).bytes(4096)
    yield "many members", zipped({f"m{index}": b"" for index in range(10_000)})


if __name__ == "__main__":
    sys.exit("this module is imported by the tests")
