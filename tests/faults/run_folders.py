"""Run folders with a damaged or made-up file each, read as a report reads them."""

from __future__ import annotations

import io
import json
import random
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from faults import grammars
from faults.counting import counted
from proximo.cli.report import content_of
from proximo.cli.runs import Run
from proximo.envs.wrappers.monitor import load_results
from proximo.reports.page import embedded_film
from proximo.training.run_lock import living_holder

EVENTS = ["start", "time", "end", "warning", "", "\x1b[2J"]
CELLS = ["0", "1.5", "nan", "-inf", "1e999", "", "x", '"', '"a,b"', "9" * 400, "\x00", "\u2028", "é", "[/]", "$x^$"]
COLUMNS = ["time/total_timesteps", "rollout/ep_rew_mean", "time/fps", "x", "", "__proto__", "\x1b]0;x\x07"]
KINDS = ["<i8", "<f8", "|b1", "<c16", "|S8", "<M8[ns]", "|O", "<U2", "<f2", "[('a', '<f8')]"]


def good_files() -> dict[str, bytes]:
    numbers = io.BytesIO()
    np.savez(numbers, timesteps=np.array([10, 20]), results=np.array([[1.0, 2.0], [3.0, 4.0]]))
    result = {"steps": 30, "evaluation": {"episode_rewards": [1.0, 2.0], "episode_lengths": [1, 2]}}
    return {
        "config.toml": b'env = "CartPole-v1"\nalgo = "ppo"\nseed = 1\npreset = "x"\nn_timesteps = 100\n',
        "progress.csv": b"time/total_timesteps,rollout/ep_rew_mean,time/fps\n10,1.5,100\n20,2.5,110\n",
        "journal.jsonl": b'{"event": "start"}\n{"event": "end", "steps": 20, "seconds": {"rollouts": 1.5}}\n',
        "result.json": json.dumps(result).encode(),
        "versions.json": b'{"python": "3.11", "packages": {"torch": "2.13"}}',
        "evaluations.npz": numbers.getvalue(),
        "video.gif": b"GIF89a" + bytes(20),
    }


class RunFolders:
    """A folder whose files are good but for one."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        self._root = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        self.folder = Path(self._root.name)
        self.good = good_files()
        for name, data in self.good.items():
            (self.folder / name).write_bytes(data)
        content_of([Run.open(self.folder)], embedded_film)  # imports what it needs
        self.episodes = self.folder / "episodes"
        self.episodes.mkdir()
        (self.episodes / "0.monitor.csv").write_text('#{"t_start": 0}\nr,l,t\n')
        load_results(self.episodes)

    def read(self, random_: random.Random) -> None:
        name = random_.choice(list(self.good))
        (self.folder / name).write_bytes(self.spoiled(name, random_))
        try:
            json.dumps(counted(lambda: content_of([Run.open(self.folder)], embedded_film)), allow_nan=False)
        finally:
            (self.folder / name).write_bytes(self.good[name])

    def read_episodes(self, random_: random.Random) -> None:
        (self.episodes / "0.monitor.csv").write_bytes(episodes(random_))
        counted(load_results, self.episodes)

    def read_lock(self, random_: random.Random) -> None:
        (self.episodes / "writer.1.lock").write_bytes(lock(random_))
        str(counted(living_holder, self.episodes))

    def spoiled(self, name: str, random_: random.Random) -> bytes:
        from faults.fuzzing import mutate

        if name == "video.gif" or random_.random() < 0.4:
            return mutate(self.good[name], random_)
        makers = {
            "config.toml": grammars.toml_text,
            "progress.csv": table,
            "journal.jsonl": journal,
            "result.json": result,
            "versions.json": versions,
            "evaluations.npz": evaluations,
        }
        return makers[name](random_)


def versions(random_: random.Random) -> bytes:
    if random_.random() < 0.8:
        return grammars.json_text(random_)
    names: Any = {f"{number}": number for number in range(random_.choice([3, 900, 3000]))}
    for _ in range(random_.choice([1, 20])):
        names = {"k" * random_.choice([1, 300, 100_000]): names}
    return json.dumps(names).encode()


def episodes(random_: random.Random) -> bytes:
    """A file of Monitor, or nearly: rows and headers of other lengths than they seem to have."""
    width = random_.choice([3, 3, 3, 200, 3000])
    names = ["r", "l", "t", *(f"c{number}" for number in range(width - 3))]
    rows = [random_.choice([["1"] * width, ["1"], CELLS[:3]]) for _ in range(random_.choice([0, 2, 10]))]
    rows += [["1"]] * random_.choice([0, 0, 5000])
    if random_.random() < 0.3:
        names[random_.randrange(3)] = random_.choice(['"r\n"', '"', "x" * 200_000, '"r\n",', "r\r"])
    start = random_.choice(['{"t_start": 0}'] * 5 + ["[" * 500, "{}", '{"t_start": 1e999}', grammars.WORDS[-1]])
    text = "\n".join(",".join(row) for row in [names, *rows]) + random_.choice(["", "\n", ',"x"', '"'])
    return f"#{start}\n{text}".encode()


def lock(random_: random.Random) -> bytes:
    if random_.random() < 0.5:
        return grammars.json_text(random_)
    return json.dumps(dict.fromkeys(("owner", "since"), grammars.json_value(random_, 2))).encode()


def table(random_: random.Random) -> bytes:
    width = random_.choice([1, 3, 3, 3, 300])
    header = random_.choice([COLUMNS[:3], random_.choices(COLUMNS, k=width)])
    rows = [random_.choices(CELLS[: random_.choice([2, 15])], k=width) for _ in range(random_.choice([0, 1, 5, 40]))]
    return "\n".join(",".join(row) for row in [header, *rows]).encode()


def journal(random_: random.Random) -> bytes:
    lines = []
    for _ in range(random_.choice([1, 3, 30])):
        entry: Any = {"event": random_.choice(EVENTS), "seconds": {"rollouts": random_.choice(grammars.NUMBERS[:14])}}
        entry |= {random_.choice(["text", "error", "steps", "ending", "seconds"]): grammars.json_value(random_, 2)}
        lines.append(json.dumps(entry).encode() if random_.random() < 0.8 else grammars.json_text(random_))
    return b"\n".join(lines)


def result(random_: random.Random) -> bytes:
    if random_.random() < 0.3:
        return grammars.json_text(random_)
    returns = random_.choice(
        [grammars.json_value(random_, 2), random_.choices(grammars.NUMBERS + [True, None, "x"], k=3)]
    )
    steps = random_.choice([1, -1, 10**300, True, None, 1.5])
    return json.dumps({"steps": steps, "evaluation": {"episode_rewards": returns}}).encode()


def evaluations(random_: random.Random) -> bytes:
    """An archive of arrays whose headers may lie."""
    stream, is_long = io.BytesIO(), random_.random() < 0.05
    compression = random_.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    with zipfile.ZipFile(stream, "w", compression, compresslevel=1) as archive:
        for name in ("timesteps", "results"):
            shape = random_.choice(
                ["(2,)", "(2, 2)", "()", "(0,)", "(-1,)", "(10**9, 10**9)", f"({2**40},)", "(2,", "2"]
            )
            kind = random_.choice(KINDS[:2] * 3 + KINDS)
            count = random_.choice([0, 8, 16, 32])
            if is_long:
                shape, kind, count = f"({2**20},{' 1' * (name == 'results')})", "|i1", 2**20
            header = f"{{'descr': {kind if kind[0] == '[' else repr(kind)}, 'fortran_order': False, 'shape': {shape}}}"
            if random_.random() < 0.2:
                header = random_.choice(["(" * 3000, "{" * 50, "'", header + "\\", "[" * 99 + header, "-" * 3000 + "1"])
            text = header.encode() + b" " * 20 + b"\n"
            version = random_.choice([b"\x01\x00"] * 6 + [b"\x02\x00", b"\x03\x00", b"\x09\x00"])
            length = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
            archive.writestr(f"{name}.npy", b"\x93NUMPY" + version + length + text + bytes(count))
    return stream.getvalue()
