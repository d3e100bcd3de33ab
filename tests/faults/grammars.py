"""Made-up inputs by grammar: texts of a language, most of them well-formed, with values where they hurt.

A mutated good file stays close to it; these reach what no good file has.
"""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

from .attacks import BOX, COLLIDING, DISCRETE, DTYPE, ORDERED, QUEUE, STATISTICS, get, integer, name, put, table, text

NUMBERS = [0, 1, -1, 2, 7, 255, 2**31, 2**53, 2**60, 2**63, -(2**63), 2**64, COLLIDING, 10**308, 10**400, 2**3000]
FLOATS = [0.0, -0.0, 1.5, 1e308, -1e-320, float("inf"), float("-inf"), float("nan")]
WORDS = ["", "x", "u1", "f8", "C", "F", "<", "nan", "low", "high", "n", "nvec", "spaces", "mean", "var", "count"]
WORDS += ["storage", "0", "cpu", "\x00", "\x1b[2J", "é", "k" * 2000, "__closure__", "__module__", "val", "start"]
NAMES = [
    *(("numpy._core.numeric", "_frombuffer"), ("numpy.core.multiarray", "_reconstruct")),
    *(("numpy._core.multiarray", "scalar"), ("torch._utils", "_rebuild_tensor_v2"), ("torch", "FloatStorage")),
    *(("gymnasium.spaces.multi_discrete", "MultiDiscrete"), ("gymnasium.spaces.dict", "Dict")),
    *(("gymnasium.spaces.multi_binary", "MultiBinary"), ("stable_baselines3.common.utils", "FloatSchedule")),
    *(("stable_baselines3.common.utils", "LinearSchedule"), ("cloudpickle.cloudpickle", "_make_function")),
    *(("cloudpickle.cloudpickle", "_function_setstate"), ("torch.nn.modules.activation", "Tanh"), ("os", "system")),
    ("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize"),
]


# ------------------------------------------------------------------------------------------------------------- pickles


def pickled(random_: random.Random) -> bytes:
    """A pickle: usually of expressions that leave one value, now and then of any operations at all."""
    if random_.random() < 0.15:
        return b"\x80\x04" + b"".join(_operation(random_) for _ in range(random_.randrange(60))) + b"."
    return b"\x80\x04" + _expression(random_, random_.choice([2, 3, 4, 5])) + b"."


def _operation(random_: random.Random) -> bytes:
    plain = b"(0.12NRbcelt)}]uasQ\x81\x85\x86\x87\x88\x89\x90\x91\x92\x93\x94"
    return random_.choice(
        [
            lambda: bytes([random_.choice(plain)]),
            lambda: _leaf(random_),
            lambda: put(random_.randrange(4)),
            lambda: get(random_.randrange(4)),
            lambda: b"p%d\n" % random_.choice(NUMBERS[:13]),
            lambda: bytes([random_.randrange(256)]),
        ]
    )()


def _leaf(random_: random.Random) -> bytes:
    return random_.choice(
        [
            lambda: b"N",
            lambda: integer(random_.choice(NUMBERS)),
            lambda: b"G" + struct.pack(">d", random_.choice(FLOATS)),
            lambda: text(random_.choice(WORDS)),
            lambda: _bytes(random_.choice([0, 1, 4, 8, 64])),
            lambda: name(*random_.choice(NAMES)),
            lambda: random_.choice([BOX, DISCRETE, DTYPE, ORDERED, QUEUE, STATISTICS]),
            lambda: get(random_.randrange(3)) if random_.random() < 0.3 else b"\x88",
        ]
    )()


def _bytes(count: int) -> bytes:
    return b"B" + struct.pack("<I", count) + bytes(count)


def _expression(random_: random.Random, depth: int) -> bytes:
    if depth == 0:
        return _leaf(random_)

    def inner() -> bytes:
        return _expression(random_, random_.randrange(depth))

    def some() -> bytes:
        return b"".join(inner() for _ in range(random_.choice([0, 1, 2, 3, 4, 40])))

    made = random_.choice(
        [
            lambda: b"(" + some() + b"l",
            lambda: b"(" + some() + b"t",
            lambda: b"}(" + b"".join(_leaf(random_) + inner() for _ in range(random_.randrange(4))) + b"u",
            lambda: _callable(random_, inner) + b"(" + some() + b"tR",
            lambda: _callable(random_, inner) + b")\x81" + _state(random_, inner) + b"b",
            lambda: DTYPE + b"(" + text(random_.choice(WORDS[2:4])) + b"\x89\x88tR",
            lambda: inner() + b"Q",
            lambda: inner() + b"\x85" * random_.choice([1, 2, 33, 300]),
        ]
    )()
    return made + put(random_.randrange(3)) if random_.random() < 0.2 else made


def _callable(random_: random.Random, inner: Callable[[], bytes]) -> bytes:
    if random_.random() < 0.1:
        return inner()
    return random_.choice([BOX, DISCRETE, DTYPE, ORDERED, QUEUE, STATISTICS, *(name(*pair) for pair in NAMES)])


def _state(random_: random.Random, inner: Callable[[], bytes]) -> bytes:
    if random_.random() < 0.2:
        return inner()
    keys = random_.sample(["low", "high", "n", "nvec", "spaces", "start", "dtype", "mean", "var", "count", "val"], 4)
    return table(**{key: inner() for key in keys})


# ---------------------------------------------------------------------------------------------------------------- JSON


def json_text(random_: random.Random) -> bytes:
    """JSON, or nearly."""
    if random_.random() < 0.3:
        pieces = ['"', "\\", '\\"', "[", "]", "{", "}", ",", ":", "1", "-", "e9", "null", "NaN", "1e999", " ", "\\u12"]
        return "".join(random_.choices(pieces, k=random_.choice([3, 10, 40, 400]))).encode()
    written = json.dumps(json_value(random_, random_.randrange(6)))
    if random_.random() < 0.2:
        place = random_.randrange(len(written) + 1)
        written = written[:place] + random_.choice(["[" * 40, '"' * 3, "9" * 400, "\\", ",", "}"]) + written[place:]
    return written.encode()


def json_value(random_: random.Random, depth: int) -> Any:
    """A value as files have it: plain, or tagged as some kind of object."""
    if depth == 0 or random_.random() < 0.2:
        return random_.choice([None, True, *NUMBERS[:14], *FLOATS[:5], *WORDS])

    def inner() -> Any:
        return json_value(random_, random_.randrange(depth))

    kinds = ["float", "tuple", "dict", "array", "scalar", "class", "stored", "Box", "Discrete", "MultiDiscrete"]
    kinds += ["MultiBinary", "Dict", "Tuple", "device", "path", "ConstantSchedule", "FloatSchedule", "LinearSchedule"]
    match random_.randrange(7):
        case 0:
            return [inner() for _ in range(random_.choice([0, 1, 2, 3, 30]))]
        case 1:
            return {random_.choice(WORDS): inner() for _ in range(random_.randrange(4))}
        case 2:
            return {"$": random_.choice(kinds), "value": inner()}
        case 3:
            return {"$": "dict", "value": [[random_.choice(NUMBERS + WORDS), inner()] for _ in range(3)]}
        case 4:
            return {"$": "array", "value": _json_array(random_)}
        case 5:
            sides = {side: {"$": "array", "value": _json_array(random_)} for side in ("low", "high")}
            return {"$": "Box", "value": sides}
        case _:
            return {"$": "Dict", "value": [[random_.choice(WORDS), inner()] for _ in range(3)]}


def _json_array(random_: random.Random) -> dict[str, Any]:
    shape = [random_.choice([0, 1, 2, 3, -1, 2**20, 2**40, 2**62]) for _ in range(random_.choice([0, 1, 2, 40]))]
    kind = random_.choice(["float32", "float64", "uint8", "bool", "int64", "object", "float16"])
    values = [random_.choice([0, 1, 300, 1.5, "nan", True, None]) for _ in range(random_.randrange(7))]
    filled = {"fill": random_.choice([0, 1.5, "inf", 10**400])}
    return {"dtype": kind, "shape": shape, **(filled if random_.random() < 0.5 else {"values": values})}


# --------------------------------------------------------------------------------------------------------- safetensors


def safetensors_file(random_: random.Random) -> bytes:
    """A header about tensors that may lie, and some data; often one of statistics of observations and returns."""
    data, header, start = bytes(64), {}, 0
    parts = [f"{owner}.{part}" for owner in ("ret_rms", "obs_rms") for part in ("mean", "var", "count")]
    others = ["w", ".", "obs_rms/é.var", "__metadata__", *parts]
    names = parts if random_.random() < 0.5 else random_.choices(others, k=random_.choice([0, 1, 2, 9]))
    for name_ in names:
        lie = random_.choice([None] * 12 + ["shape", "type", "offset", "nothing"])
        shape = [random_.choice([0, 1, 8, 2**31, 2**62, 2**63]) for _ in range(random_.choice([1, 2, 50]))]
        kind = random_.choice(["F32", "BOOL", "U64", "BF16", "I64", "F8_E4M3", "odd"])
        end = {"offset": random_.choice([0, 1, 2**62]), "nothing": start}.get(lie, start + 8)
        shape = [*shape, 0] if lie == "nothing" else shape
        entry = {"dtype": kind if lie == "type" else "F64", "shape": shape if lie in ("shape", "nothing") else []}
        header[name_] = {**entry, "data_offsets": [start, end]}
        start = end
    settings = {random_.choice(["clip_obs", "gamma", "norm_obs", "norm_obs_keys", "x"]): json_value(random_, 1)}
    settings = {"clip_obs": 10.0} if random_.random() < 0.3 else settings
    header["__metadata__"] = {"format": "proximo-vec-normalize-1", "settings": json.dumps(settings)}
    written = json.dumps(header).encode() if random_.random() < 0.9 else json_text(random_)
    length = len(written) if random_.random() < 0.9 else random_.choice([0, 2**20, 2**63, len(written) + 1])
    return struct.pack("<Q", length) + written + data[: min(start, 64)]


# ---------------------------------------------------------------------------------------------------------------- zips


def zip_file(random_: random.Random, members: dict[str, bytes]) -> bytes:
    """Local headers, a directory and its end, each of which may contradict the others."""
    body, directory, count = b"", b"", 0
    names = list(members) if random_.random() < 0.7 else random_.choices(list(members), k=random_.randrange(6))
    for member in names:
        data = members[member][: random_.choice([0, 10] + [10**9] * 20)]
        lie = random_.choice([None] * 30 + ["size", "name", "offset", "flags", "method", "extra", "attributes"])
        path = random_.choice(["../x", "/x", "", "\x00", "a" * 70_000]) if lie == "name" else member
        size = random_.choice([0, 2**32 - 1, len(data) + 1]) if lie == "size" else len(data)
        extra = random_.choice([b"\x01\x00\x10\x00" + bytes(16), b"\x75\x70\x00\x00" * 9, b"\x01\x00\xff\xff", b"x"])
        extra = extra if lie == "extra" else b""
        flags = random_.choice([1, 0x40, 0x20, 0x800, 0xFFFF]) if lie == "flags" else 0
        method = random_.choice([8, 12, 14, 99]) if lie == "method" else 0
        offset = random_.choice([0, 2**32 - 1, len(body) + 1]) if lie == "offset" else len(body)
        attributes = random_.choice([0o120777 << 16, 0o40777 << 16]) if lie == "attributes" else 0o100644 << 16
        encoded = path.encode()[:65535]
        crc = random_.choice([0] + [zlib.crc32(data)] * 30)
        shared = struct.pack("<HHHHHIIIHH", 20, flags, method, 0, 33, crc, size, size, len(encoded), len(extra))
        body += b"PK\x03\x04" + shared + encoded + extra + data
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + shared
        directory += struct.pack("<HHHII", 0, 0, 0, attributes, offset) + encoded + extra
        count += 1
    told = random_.choice([count, count, count, 0, 65535])
    start = random_.choice([len(body)] * 9 + [0, len(body) + 7, 2**32 - 1])
    length = random_.choice([len(directory)] * 9 + [0, 2**31])
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, told, told, length, start, 0)
    return body + directory + end + random_.choice([b"", b"", b"", b"x", bytes(30)])


# ---------------------------------------------------------------------------------------------------------------- TOML


def toml_text(random_: random.Random) -> bytes:
    """The configuration of a run, or nearly."""
    keys = ["env", "algo", "seed", "preset", "n_envs", "n_timesteps", "frame_stack", "env_wrapper", "normalize"]
    keys += [
        "policy",
        "policy_kwargs",
        "env_kwargs",
        "gamma",
        "n_steps",
        "learning_rate",
        "tensorboard_log",
        "é",
        "a.b",
    ]
    lines = ['env = "CartPole-v1"', 'algo = "ppo"', "seed = 1", 'preset = "x"'] if random_.random() < 0.7 else []
    for _ in range(random_.randrange(8)):
        key = _dotted(random_) if random_.random() < 0.05 else random_.choice(keys)
        lines.append(f"{key} = {_toml_value(random_, random_.randrange(4))}")
    for _ in range(random_.randrange(3)):
        header = random_.choice(["session", "policy_kwargs", "a.b.c", _dotted(random_)])
        lines.append(random_.choice([f"[{header}]", f"[[{header}]]", f"[{header}"]))
        lines.append(f"{random_.choice(keys)} = {_toml_value(random_, 1)}")
    written = "\n".join(lines)
    if random_.random() < 0.2:
        place = random_.randrange(len(written) + 1)
        written = written[:place] + random_.choice(["[" * 500, "'''", '"', "\x00", "=", "{" * 40]) + written[place:]
    return written.encode() if random_.random() < 0.97 else written.encode() + b"\xff"


def _dotted(random_: random.Random) -> str:
    part = random_.choice(["a", "a", '"="', "'#' ", '"\\""\t'])
    return ".".join([part] * random_.choice([2, 30, 40, 500, 20_000]))


def _toml_value(random_: random.Random, depth: int) -> str:
    if depth == 0:
        words = ['"AtariWrapper"', '"SubprocVecEnv"', '"os.system"', "true", "nan", "-inf", "1979-05-27", "07:32:00"]
        words += ["0x" + "f" * 40, "9" * 25, "9" * 5000, "1.5", "3", '"lin_0.1"', "'x'", '"\\u0041"', "1_0", '""']
        return random_.choice(words)
    inner = [_toml_value(random_, random_.randrange(depth)) for _ in range(random_.randrange(4))]
    if random_.random() < 0.5:
        return f"[{', '.join(inner)}]"
    return "{" + ", ".join(f"k{index} = {value}" for index, value in enumerate(inner)) + "}"
