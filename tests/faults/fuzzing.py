"""Damaged and made-up inputs to every reader of files, and the loop that reads them within bounds.

Mutations keep what would otherwise stop them at once: checksums and hashes are made right again, so that the
parsers behind them are reached. Grammars (``grammars.py``) write what no good file is close to.

``python -m faults.fuzzing SEED COUNT`` reads inputs in a process of its own and prints the counts as JSON; an input
that breaks the promise ends it with an error that names the input.
"""

from __future__ import annotations

import faulthandler
import hashlib
import io
import json
import pickle
import random
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import proximo
from faults import grammars
from faults.counting import counted
from faults.hostile_files import members_of, saved_by_torch, zipped
from faults.run_folders import RunFolders
from proximo.cli.runs import RunConfig
from proximo.errors import ProximoError
from proximo.files.archive import MANIFEST, read_archive
from proximo.files.budgets import Budgets
from proximo.files.encoding import decode, encode
from proximo.files.known_values import known_value
from proximo.files.normalizer_file import parse_normalizer
from proximo.files.plain_text import parse_json, parse_toml
from proximo.files.restricted_pickle import read_pickle
from proximo.files.sb3_archive import read_sb3_archive
from proximo.files.torch_file import read_torch_file

MEMORY_KIB = 256 * 1024
LOADED = 0.05  # of the manifests that are read, for the price of fifty others
ADDRESS_SPACE = 8 * 2**30  # above what a process begins with: an input that asks for all memory gets an error
SMALL = {"seed": 0, "n_steps": 16, "batch_size": 16, "n_epochs": 1, "device": "cpu", "policy_kwargs": {"net_arch": [4]}}
SHARES = {"pickles": 4, "JSON": 4, "safetensors": 3, "zips": 3, "TOML": 4, "run folders": 1}  # of the inputs
INTERESTING = [
    b"\x00",
    b"\xff",
    b"\x80",
    b"\x93",
    b"R",
    b"b",
    b"\x81",
    b".",
    b"(",
    b"t",
    b"}",
    b"]",
    b"u",
    b"e",
    b"h\x00",
]
INTERESTING += [
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"cos\nsystem\n",
    b"Q",
    b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f",
]


def mutate(data: bytes, random_: random.Random) -> bytes:
    """A few changes: bits, bytes, pieces cut out, doubled, moved or put in."""
    changed = bytearray(data)
    for _ in range(random_.choice([1, 1, 1, 2, 4])):
        size = len(changed)
        place, length = random_.randrange(size + 1), random_.randint(1, 24)
        match random_.randrange(7):
            case 0 if size:
                changed[place % size] ^= 1 << random_.randrange(8)
            case 1 if size:
                changed[place % size] = random_.randrange(256)
            case 2:
                del changed[place : place + length]
            case 3:
                changed[place:place] = changed[place : place + length]
            case 4:
                changed[place:place] = random_.choice(INTERESTING)
            case 5:
                other = random_.randrange(size + 1)
                changed[place : place + length] = changed[other : other + length]
            case 6 if random_.random() < 0.1:
                del changed[place:]
    return bytes(changed)


def mutate_json(value: Any, random_: random.Random) -> Any:
    """One value somewhere inside replaced by another kind of value."""
    odd: list[Any] = [None, True, -1, 0, 2**70, 1e308, "", "x", [], {}, [[]], {"$": "x"}, {"$": "tuple", "value": 1}]
    odd += [{"$": "class", "value": "os.system"}, {"$": "array", "value": {}}, {":serialized:": "gASVAAAA"}, "\x00"]
    if isinstance(value, dict) and value and random_.random() < 0.9:
        key = random_.choice(list(value))
        changed = mutate_json(value[key], random_)
        if random_.random() < 0.1:
            return {**{name: part for name, part in value.items() if name != key}, f"{key}x": changed}
        return {**value, key: changed}
    if isinstance(value, list) and value and random_.random() < 0.9:
        place = random_.randrange(len(value))
        return [*value[:place], mutate_json(value[place], random_), *value[place + 1 :]]
    return random_.choice(odd)


class Corpus:
    """Good inputs, and for each kind of input a way to spoil one or make one up, and the reader that gets it."""

    def __init__(self) -> None:
        own = io.BytesIO()
        proximo.PPO("MlpPolicy", "Pendulum-v1", **SMALL).learn(16).save(own)
        foreign = io.BytesIO()
        theirs = stable_baselines3.PPO("MlpPolicy", "Pendulum-v1", learning_rate=LinearSchedule(1e-3, 0, 1), **SMALL)
        theirs.learn(16).save(foreign)
        normalizer = VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]))
        normalizer.seed(0)
        normalizer.reset()
        self.own, self.foreign = own.getvalue(), foreign.getvalue()
        self.own_members, self.foreign_members = members_of(self.own), members_of(self.foreign)
        self.normalizer = pickle.dumps(normalizer)
        self.torch = members_of(saved_by_torch({"w": torch.zeros(3, 2), "state": {0: {"step": torch.ones(())}}}))
        self.torch_description = next(name for name in self.torch if name.endswith("data.pkl"))
        self.pickles = [cloudpickle.dumps(value) for value in self.values()]
        self.plain = [encode(value) for value in self.values() if isinstance(value, spaces.Space | np.ndarray | dict)]
        folders = RunFolders()
        # ways take turns; the dear ones come seldom
        self.languages: dict[str, list[Callable[[random.Random], None]]] = {
            "pickles": [*[self.made_pickle, self.pickle] * 4, self.made_torch_file, self.statistics],
            "JSON": [*[self.made_json, self.encoded] * 6, *[self.own_manifest] * 3, self.foreign_parts],
            "safetensors": [*[self.made_statistics] * 4, self.made_tensors, self.own_members_],
            "zips": [*[self.made_zip, self.own_file] * 4, self.torch_file, self.foreign_file],
            "TOML": [self.made_toml],
            "run folders": [*[folders.read] * 5, folders.read_episodes, folders.read_lock],
        }

    @staticmethod
    def values() -> list[Any]:
        return [
            spaces.Box(-1, 1, (2, 3)),
            spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiBinary([2, 2]), "c": spaces.MultiDiscrete([2, 3])}),
            np.arange(6.0).reshape(2, 3),
            np.asfortranarray(np.ones((2, 2), np.uint8)),
            {"net_arch": {"pi": [8], "vf": [8]}, "activation_fn": torch.nn.ELU, "optimizer_kwargs": {"eps": 1e-5}},
            LinearSchedule(1e-3, 1e-4, 0.5),
            stable_baselines3.common.utils.FloatSchedule(0.2),
            lambda progress: 1e-3 * progress,
        ]

    def own_file(self, random_: random.Random) -> None:
        counted(read_archive, io.BytesIO(mutate(self.own, random_)))

    def own_members_(self, random_: random.Random) -> None:
        name = random_.choice([name for name in self.own_members if name != MANIFEST])
        self._read_own({**self.own_members, name: mutate(self.own_members[name], random_)})

    def own_manifest(self, random_: random.Random) -> None:
        manifest = mutate_json(json.loads(self.own_members[MANIFEST]), random_)
        stream = io.BytesIO(zipped({**self.own_members, MANIFEST: json.dumps(manifest).encode()}))
        if random_.random() < LOADED:
            counted(proximo.PPO.load, stream, device="cpu")
        else:
            counted(read_archive, stream)

    @staticmethod
    def _read_own(members: dict[str, bytes]) -> None:
        manifest = json.loads(members[MANIFEST])
        for name, promise in manifest["members"].items():
            promise |= {"sha256": hashlib.sha256(members[name]).hexdigest(), "size": len(members[name])}
        counted(read_archive, io.BytesIO(zipped({**members, MANIFEST: json.dumps(manifest).encode()})))

    def foreign_file(self, random_: random.Random) -> None:
        self._read_foreign(io.BytesIO(mutate(self.foreign, random_)))

    def foreign_members_(self, random_: random.Random) -> None:
        name = random_.choice(list(self.foreign_members))
        members = {**self.foreign_members, name: mutate(self.foreign_members[name], random_)}
        self._read_foreign(io.BytesIO(zipped(members)))

    def foreign_parts(self, random_: random.Random) -> None:
        random_.choice([self.foreign_data, self.foreign_members_])(random_)

    def foreign_data(self, random_: random.Random) -> None:
        data = mutate_json(json.loads(self.foreign_members["data"]), random_)
        stream = io.BytesIO(zipped({**self.foreign_members, "data": json.dumps(data).encode()}))
        if random_.random() < LOADED:
            counted(proximo.PPO.load, stream, device="cpu")
        else:
            self._read_foreign(stream)

    @staticmethod
    def _read_foreign(stream: io.BytesIO) -> None:
        def read() -> None:
            archive = read_sb3_archive(stream)
            archive.fields(archive.data)

        counted(read)

    def pickle(self, random_: random.Random) -> None:
        counted(translated, mutate(random_.choice(self.pickles), random_))

    def torch_file(self, random_: random.Random) -> None:
        name = random_.choice([name for name in self.torch if name.endswith("data.pkl")] * 4 + list(self.torch))
        counted(read_torch_file, zipped({**self.torch, name: mutate(self.torch[name], random_)}))

    def statistics(self, random_: random.Random) -> None:
        counted(parse_normalizer, mutate(self.normalizer, random_))

    def encoded(self, random_: random.Random) -> None:
        counted(decode, mutate_json(random_.choice(self.plain), random_))

    # made up

    def made_pickle(self, random_: random.Random) -> None:
        counted(translated, grammars.pickled(random_))

    def made_torch_file(self, random_: random.Random) -> None:
        counted(read_torch_file, zipped({**self.torch, self.torch_description: grammars.pickled(random_)}))

    def made_json(self, random_: random.Random) -> None:
        data, strict = grammars.json_text(random_), random_.random() < 0.8
        counted(lambda: decode(parse_json(data, Budgets(), strict=strict)))

    def made_statistics(self, random_: random.Random) -> None:
        counted(parse_normalizer, grammars.safetensors_file(random_))

    def made_tensors(self, random_: random.Random) -> None:
        self._read_own({**self.own_members, "policy.safetensors": grammars.safetensors_file(random_)})

    def made_zip(self, random_: random.Random) -> None:
        if random_.random() < 0.7:
            counted(read_archive, io.BytesIO(grammars.zip_file(random_, self.own_members)))
        else:
            self._read_foreign(io.BytesIO(grammars.zip_file(random_, self.foreign_members)))

    def made_toml(self, random_: random.Random) -> None:
        text = grammars.toml_text(random_)
        counted(lambda: RunConfig.from_table(parse_toml(text, "config.toml"), "config.toml"))


def translated(data: bytes) -> Any:
    return known_value(read_pickle(data).value)


@dataclass
class Counts:
    """Inputs by language: those that were tried, and those of them that were good after all."""

    tried: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)


def fuzz(count: int, seed: int) -> Counts:
    """Read ``count`` made-up inputs; each gives a value or a typed error within the bounds, or an AssertionError."""
    corpus, counts = Corpus(), Counts()
    turns = [language for language, share in SHARES.items() for _ in range(share)]
    base = peak_kib()
    for index in range(count):
        language = turns[index % len(turns)]
        ways = corpus.languages[language]
        way = ways[counts.tried[language] % len(ways)]
        counts.tried[language] += 1
        try:
            way(random.Random(f"{seed}/{index}"))
            counts.read[language] += 1
        except ProximoError:
            pass
        except BaseException as error:
            told = f"{way.__name__}, seed {seed}/{index}: {type(error).__name__}: {error}"
            raise AssertionError(told) from error
        assert peak_kib() - base < MEMORY_KIB, f"{way.__name__}, seed {seed}/{index}: {peak_kib() - base} KiB"
    return counts


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(seed: str, count: str) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + ADDRESS_SPACE, resource.RLIM_INFINITY))
    counts = fuzz(int(count), int(seed))
    print(json.dumps({"tried": counts.tried, "read": counts.read}))


if __name__ == "__main__":
    main(*sys.argv[1:])
