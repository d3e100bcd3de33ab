"""One budget for one file: what all of its parts make together is bounded, however small each is."""

from __future__ import annotations

import io
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

from proximo.errors import ModelFileError
from proximo.files.archive import read_archive, write_archive
from proximo.files.budgets import MIB, Budgets
from proximo.files.encoding import decode, encode
from proximo.files.known_values import known_value
from proximo.files.plain_text import brief, parse_toml, printable
from proximo.files.restricted_pickle import OpaqueKey, read_pickle


def test_what_is_shared_is_paid_for_each_time() -> None:
    array = np.zeros(100_000, np.uint8)
    assert len(known_value(read_pickle(pickle.dumps([array] * 100)).value)) == 100
    with pytest.raises(ModelFileError, match="may ask for"):
        known_value(read_pickle(pickle.dumps([array] * 2_000)).value)


def test_members_and_values_spend_from_one_budget() -> None:
    stream = io.BytesIO()
    state = {"a": torch.zeros(2**20), "b": torch.zeros(2**20)}
    tensors: dict[str, torch.Tensor] = {}
    write_archive(stream, {"state": encode(state, tensors)}, {"state": tensors})
    budgets = Budgets()
    manifest, groups = read_archive(stream, budgets)
    for _ in range(2):
        decode(manifest["state"], groups["state"], budgets)
    left = budgets.made_bytes
    assert left == pytest.approx(128 * MIB + 4 * len(stream.getvalue()) - 3 * 8 * MIB, abs=MIB)
    with pytest.raises(ModelFileError, match="may ask for"):
        decode([manifest["state"]] * 100, groups["state"], budgets)


def test_one_tensor_named_many_times_takes_no_memory() -> None:
    many = [{"$": "stored", "value": ["big", "float32"]}] * 10_000
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="may ask for"):
            decode(many, {"big": torch.zeros(2**20)})
        assert tracemalloc.get_traced_memory()[1] < 160 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "key", [(1, 2), b"bytes", 2.5, 2**60, -(2**61 - 1), "k" * 1001], ids=lambda key: type(key).__name__
)
def test_other_keys_than_short_texts_and_small_numbers_are_not_hashed(key: Any) -> None:
    table = read_pickle(pickle.dumps({key: 1})).value
    assert [type(found) for found in table] == [OpaqueKey]
    with pytest.raises(ModelFileError, match="keys other than short texts"):
        known_value(table)


def test_texts_for_messages_walk_nothing() -> None:
    deep: Any = ()
    for _ in range(100_000):
        deep = (deep,)
    assert brief(deep) == "a tuple"
    assert brief("x" * 100) == f"'{'x' * 60}'…"
    assert brief(2**200) == "an integer of 201 bits"
    assert printable("a\x1b[2J\n\n b" + "c" * 500) == "a [2J b" + "c" * 152 + "…"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a = " + b"[" * 100_000, "not valid TOML"),
        (b"a = " + b"[" * 40 + b"]" * 40, "nested deeper than 32"),
        (b"a." * 5000 + b"a = 1", "dotted name of more than 32 parts"),
        (b"[" + b"a." * 60_000 + b"a]\n" + b"b = 1\n" * 30, "dotted name of more than 32 parts"),
        (b"a = " + b"9" * 5000, "not valid TOML"),
        (b"a = 0x" + b"f" * 5000, "an integer of 20000 bits"),
        (b"a = 1979-05-27", "holds a date"),
        (b"a = '\xff'", "not valid TOML"),
        (b"#" * 300_000, "the budget is"),
    ],
)
def test_hostile_toml_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        parse_toml(text, "config.toml")
