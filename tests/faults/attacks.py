"""Small files that want to crash, stall or fill the machine that reads them, by class and name.

Pickles are written opcode by opcode: no library would write them so.
"""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import torch

from proximo.files.archive import read_archive

from .hostile_files import members_of, rewritten, saved_by_torch, zipped

COLLIDING = 2**61 - 1  # Python's hashes of integers are modulo this
NESTED = b"N" + b"\x85" * 100_000  # (((…None…),),)


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def integer(value: int) -> bytes:
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8b" + struct.pack("<i", len(data)) + data


def bytes_(count: int) -> bytes:
    return b"B" + struct.pack("<I", count) + bytes(count)


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def put(index: int) -> bytes:
    return b"r" + struct.pack("<I", index)


def get(index: int) -> bytes:
    return b"j" + struct.pack("<I", index)


def table(**entries: bytes) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in entries.items()) + b"u"


def whole(body: bytes) -> bytes:
    return b"\x80\x04" + body + b"."


def called(function: bytes, *arguments: bytes) -> bytes:
    return function + b"(" + b"".join(arguments) + b"tR"


def built(cls: bytes, **state: bytes) -> bytes:
    return cls + b")\x81" + table(**state) + b"b"


def many(item: bytes, count: int) -> bytes:
    return b"](" + item * count + b"e"


def kept(*values: bytes) -> bytes:
    """The values in the memo, from place 0 on, and nothing on the stack."""
    return b"".join(value + put(index) + b"0" for index, value in enumerate(values))


DTYPE = name("numpy", "dtype")
BOX, DISCRETE = name("gymnasium.spaces.box", "Box"), name("gymnasium.spaces.discrete", "Discrete")
ORDERED, QUEUE = name("collections", "OrderedDict"), name("collections", "deque")
STATISTICS = name("stable_baselines3.common.running_mean_std", "RunningMeanStd")
UINT8 = called(DTYPE, text("u1"), b"\x89", b"\x88")
SHARED_ARRAY = called(name("numpy._core.numeric", "_frombuffer"), get(0), get(1), get(2), text("C"))


def shared_bytes(count: int) -> bytes:
    """Bytes, their type and their shape, which :data:`SHARED_ARRAY` refers to."""
    return kept(bytes_(count), UINT8, b"(" + integer(count) + b"t")


def pickles() -> dict[str, dict[str, bytes]]:
    """Bodies of pickles that leave one value, by class and name."""
    levels = many(b"K\x01", 4) + b"".join(put(i) + b"0" + many(get(i), 4) for i in range(27))
    objects = kept(ORDERED) + b"N" + (b"\x85" + put(1) + b"0" + get(0) + get(1) + b"R") * 50_000
    nowhere = called(name("torch._utils", "_rebuild_tensor_v2"), NESTED + b"Q", b"K\x00", b")", b")")
    long_key, same_key = text("k" * 10**6), text("k" * 10**6)
    box, statistics = (
        built(BOX, low=SHARED_ARRAY, high=SHARED_ARRAY),
        built(STATISTICS, mean=SHARED_ARRAY, var=SHARED_ARRAY, count=b"K\x01"),
    )
    large_shape = kept(bytes_(0), UINT8, b"(" + integer(2**60) * 20_000 + b"t")
    schedule = built(name("stable_baselines3.common.utils", "ConstantSchedule"), val=integer(10**400))
    return {
        "nesting": {
            "tuple that is called": NESTED + b")R",
            "tuple as a class": NESTED + b")\x81",
            "tuple as a type of numbers": called(DTYPE, NESTED),
            "tuple as a byte order": called(DTYPE, text("u1")) + b"(K\x01" + NESTED + b"tb",
            "tuple as a key": b"}" + NESTED + b"Ns",
            "tuple within a key": b"}(K\x01" + NESTED + b"tNs",
            "tuple as a number of choices": built(DISCRETE, n=NESTED),
            "tuple where memory is expected": nowhere,
            "objects of objects": objects,
            "lists of lists, 28 levels, four of each": levels,
        },
        "output": {
            "arrays of the same bytes": shared_bytes(100_000) + many(SHARED_ARRAY, 4_000),
            "boxes of the same bytes": shared_bytes(100_000) + many(box, 1_000),
            "statistics of the same bytes": shared_bytes(100_000) + many(statistics, 1_000),
            "queues of the same list": kept(many(b"K\x01", 10_000)) + many(called(QUEUE, get(0)), 10_000),
            "tables of the same list": kept(many(b"X\x01\x00\x00\x00kK\x02\x86", 10_000))
            + many(called(ORDERED, get(0)), 10_000),
            "one text many times": kept(text("x" * 10**6)) + many(get(0), 10_000),
            "half a million objects": kept(ORDERED) + many(get(0) + b")\x81", 170_000),
        },
        "work": {
            "huge integer as key": kept(integer(2**8_000_000)) + b"}(" + (get(0) + b"N") * 20_000 + b"u",
            "tuple of long integers as key": kept(b"(" + integer(2**30_000) * 60 + b"t")
            + b"}("
            + (get(0) + b"N") * 20_000
            + b"u",
            "keys with one hash": b"}(" + b"".join(integer(i * COLLIDING) + b"N" for i in range(30_000)) + b"u",
            "memo with one hash": b"N" + b"".join(b"p%d\n" % (i * COLLIDING) for i in range(30_000)),
            "two long texts as keys in turn": kept(long_key, same_key)
            + b"}("
            + (get(0) + b"N" + get(1) + b"N") * 20_000
            + b"u",
            "shapes of many numbers": large_shape + many(SHARED_ARRAY, 20_000),
            "text of a type": built(DISCRETE, n=b"K\x03", dtype=text("i4," * 100_000)),
        },
        "numbers": {
            "integer of 1329 bits": integer(10**400),
            "integer of a million bits": integer(2**1_000_000),
            "schedule of 1329 bits": schedule,
        },
    }


def attacks(own: bytes, foreign: bytes, own_normalizer: bytes, all_places: bool) -> Iterator[tuple[str, str, bytes]]:
    """Class, name and content of hostile files, made of one good file of each kind.

    Pickles are put into all places where one is read, or each into one of them.
    """
    titles = [(kind, title, body) for kind, bodies in pickles().items() for title, body in bodies.items()]
    for index, (kind, title, body) in enumerate(titles):
        places = list(_everywhere(foreign, whole(body)))
        for where, data in places if all_places else [places[index % len(places)]]:
            yield kind, f"{where}: {title}", data
    yield from _json_attacks(own, foreign, own_normalizer)
    yield from _own_attacks(own)
    yield from _zip_attacks(own, foreign)


def _everywhere(foreign: bytes, pickled: bytes) -> Iterator[tuple[str, bytes]]:
    """A pickle in each place where one is read."""
    members = members_of(foreign)
    data = json.loads(members["data"])
    serialized = {":serialized:": base64.b64encode(pickled).decode()}
    for field in ("policy_kwargs", "clip_range"):
        yield f"sb3 {field}", zipped({**members, "data": json.dumps({**data, field: serialized}).encode()})
    inner = members_of(saved_by_torch({"w": torch.zeros(8)}))
    description = next(member for member in inner if member.endswith("data.pkl"))
    weights = zipped({**inner, description: whole(table(w=pickled[2:-1]))})
    yield "sb3 weights", zipped({**members, "policy.pth": weights})
    normalizer = name("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
    yield "statistics", whole(built(normalizer, clip_obs=pickled[2:-1], ret_rms=b"N"))
    yield "pickle", pickled


def _json_attacks(own: bytes, foreign: bytes, own_normalizer: bytes) -> Iterator[tuple[str, str, bytes]]:
    ours, theirs = members_of(own), members_of(foreign)
    open_string = b'{"a": "' + b'\\"' * 500_000
    yield "work", "manifest of escaped quotes", zipped({**ours, "manifest.json": open_string})
    yield "work", "data of escaped quotes", zipped({**theirs, "data": open_string})
    yield "work", "statistics of escaped quotes", struct.pack("<Q", len(open_string)) + open_string
    metadata = {"format": "proximo-vec-normalize-1", "settings": '"' + '\\"' * 500_000}
    header = json.dumps({"__metadata__": metadata}).encode()
    yield "work", "settings of escaped quotes", struct.pack("<Q", len(header)) + header
    length = struct.unpack("<Q", own_normalizer[:8])[0]
    good = json.loads(own_normalizer[8 : 8 + length])
    for kind, title, settings in (
        ("numbers", "an integer of 1329 bits", {"clip_obs": 10**400}),
        ("numbers", "an integer of 1000 bits", {"gamma": 2**1000}),
        ("numbers", "a list", {"epsilon": [[1]]}),
        ("work", "a key of a million letters", {"norm_obs_keys": ["k" * 1_000_000]}),
    ):
        good["__metadata__"]["settings"] = json.dumps({"norm_obs": True, **settings})
        header = json.dumps(good).encode()
        data = struct.pack("<Q", len(header)) + header + own_normalizer[8 + length :]
        yield kind, f"setting of statistics: {title}", data
    described = json.loads(theirs["data"])
    for kind, title, fields in (
        ("numbers", "learning rate of 1329 bits", {"learning_rate": 10**400}),
        ("numbers", "entropy coefficient of 1329 bits", {"ent_coef": 10**400}),
        ("numbers", "window of 2**40 episodes", {"_stats_window_size": "a"}),
        ("numbers", "steps so far in words", {"num_timesteps": "many"}),
        ("numbers", "progress beyond the end", {"_current_progress_remaining": [1]}),
        ("output", "noise of 2**24 environments", {"use_sde": True, "n_envs": 2**24}),
    ):
        yield kind, f"sb3: {title}", zipped({**theirs, "data": json.dumps({**described, **fields}).encode()})


def _own_attacks(own: bytes) -> Iterator[tuple[str, str, bytes]]:
    manifest, tensors = read_archive(io.BytesIO(own))
    fields = manifest["fields"]

    def changed(**changes: Any) -> bytes:
        return rewritten({**manifest, "fields": {**fields, **changes}}, tensors)

    def tagged(kind: str, value: Any) -> dict[str, Any]:
        return {"$": kind, "value": value}

    pairs = [[i * COLLIDING, 1] for i in range(30_000)]
    yield "work", "own: keys with one hash", changed(policy_kwargs={"net_arch": tagged("dict", pairs)})
    many = [2**60] * 60_000
    huge = tagged("array", {"dtype": "float32", "shape": many, "fill": 0})
    yield "work", "own: shape of many numbers", changed(policy_kwargs={"net_arch": huge})
    fill = tagged("array", {"dtype": "float64", "shape": [2**20], "fill": 0.0})
    yield "output", "own: many filled arrays", changed(policy_kwargs={"net_arch": [fill] * 1000})
    spaces = [[f"k{i}", tagged("Discrete", {"n": 2, "start": 0, "dtype": "int64"})] for i in range(15_000)]
    yield "output", "own: a space of 15,000 parts", changed(observation_space=tagged("Dict", spaces))
    state = [tagged("stored", ["big", "tensor"])] * 20_000
    big = {**tensors, "training_state": {"big": torch.zeros(2**16)}}
    yield "output", "own: one tensor many times", rewritten({**manifest, "training_state": state}, big)
    names = {**tensors, "policy": {f"w{i}": torch.zeros(0) for i in range(30_000)}}
    layers = {**manifest, "fields": {**fields, "policy_kwargs": {"net_arch": [1] * 200_000}}}
    yield "output", "own: 200,000 layers", rewritten(layers, names)
    for title, changes in {
        "learning rate of 1024 bits": {"learning_rate": 2**1024 - 1},
        "seed in words": {"seed": "zero"},
        "buffer that is a layer": {"rollout_buffer_class": tagged("class", "Identity")},
        "backend unheard of": {"_backend_choice": "quantum"},
        "precision unheard of": {"precision": [16]},
        "environments by the fraction": {"n_envs": 1.5},
        "steps so far in words": {"num_timesteps": "many"},
        "arguments of a policy in a list": {"policy_kwargs": [1]},
        "methods replaced": {"predict": 5, "policy": 6},
    }.items():
        yield "numbers", f"own: {title}", changed(**changes)
    yield (
        "numbers",
        "own: generator beyond its numbers",
        rewritten(
            {**manifest, "generator": {**manifest["generator"], "state": {"state": -1, "inc": 10**100}}}, tensors
        ),
    )
    text = json.dumps({**manifest, "content": "\x1b[2J"})
    yield "numbers", "own: terminal codes as content", rewritten(json.loads(text), tensors)


def _zip_attacks(own: bytes, foreign: bytes) -> Iterator[tuple[str, str, bytes]]:
    for kind, file in (("own", own), ("sb3", foreign)):
        end = file.rindex(b"PK\x05\x06")
        count, size, start = struct.unpack("<HII", file[end + 10 : end + 20])
        extra = struct.pack("<HH", 0x7075, 0) * 16_000  # a field after the other, each empty
        directory = bytearray(file[start : start + size])
        length = struct.unpack("<H", directory[28:30])[0]
        directory[30:32] = struct.pack("<H", len(extra))
        directory[46 + length : 46 + length] = extra
        tail = bytearray(file[end:])
        tail[12:20] = struct.pack("<II", len(directory), start)
        yield "zips", f"{kind}: a directory of empty fields", file[:start] + bytes(directory) + bytes(tail) + b"x"
        tail[10:12] = struct.pack("<H", count)
        yield "zips", f"{kind}: a directory before its end", file[: start - 4] + bytes(directory) + bytes(tail)
