"""What trackers have stored, read back: rows as {step: {key: value}}."""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

CLOCK = ("time/fps", "time/time_elapsed")
Rows = dict[int, dict[str, float]]


def progress(run: Path) -> Rows:
    """progress.csv by its steps."""
    found: Rows = {}
    for row in csv.DictReader((run / "progress.csv").open()):
        values = {key: float(value) for key, value in row.items() if value}
        found.setdefault(int(values["time/total_timesteps"]), {}).update(values)
    return found


def same(tracked: Mapping[int, Mapping[str, float]], written: Rows) -> None:
    """Equal but for what the clock says, which differs in a resumed training."""
    assert sorted(tracked) == sorted(written)
    for step, row in written.items():
        for key, value in row.items():
            if key not in CLOCK:
                assert tracked[step][key] == value, (step, key)


def wandb_records(run: Path) -> list[tuple[str, Any]]:
    """The records of all offline folders of a run, oldest first."""
    from wandb.proto import wandb_internal_pb2

    records = []
    for file in sorted((run / "wandb").glob("offline-run-*/*.wandb")):
        for data in logged(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            kind = record.WhichOneof("record_type")
            records.append((kind, getattr(record, kind)))
    return records


def logged(data: bytes) -> Iterator[bytes]:
    """The records of a ``.wandb`` file: LevelDB's log format after a header of seven bytes."""
    block, header, place, parts = 32768, 7, 7, []
    assert data.startswith(b":W&B")
    while place + header <= len(data):
        if block - place % block < header:  # too little is left in this block for a record's header
            place += block - place % block
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        parts.append(data[place + header : place + header + length])
        place += header + length
        if kind in (1, 4):  # whole, or the last part
            yield b"".join(parts)
            parts = []


def items(entries: Any) -> dict[str, Any]:
    return {entry.key or "/".join(entry.nested_key): json.loads(entry.value_json) for entry in entries}


def wandb_history(run: Path) -> list[dict[str, Any]]:
    return [items(record.item) for kind, record in wandb_records(run) if kind == "history"]
