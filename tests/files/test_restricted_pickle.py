"""The restricted reader: the same data as pickle where it is data, names and calls where it is code."""

from __future__ import annotations

import collections
import io
import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import proximo.agents.ppo  # noqa: F401 - registers the classes that pickles may name
from proximo.errors import ModelFileError
from proximo.files.known_values import UnknownValue, known_value
from proximo.files.restricted_pickle import Made, Name, read_pickle, write_pickle
from proximo.files.torch_file import read_torch_file

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5) | st.integers(-(2**59), 2**59), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(PLAIN, st.integers(2, 5))
def test_plain_data_is_read_and_written_as_pickle_does(value: Any, protocol: int) -> None:
    assert read_pickle(pickle.dumps(value, protocol)).value == value or protocol < 3  # bytes need a call before 3
    assert pickle.loads(write_pickle(value)) == value
    assert read_pickle(write_pickle(value)).value == value


@pytest.mark.parametrize("dump", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 3), np.float32),
        np.array(3.5),
        np.array([True, False]),
        np.float32(1.5),
        np.dtype(np.uint8),
    ],
    ids=repr,
)
def test_arrays(value: Any, dump: Any) -> None:
    made = known_value(read_pickle(dump(value)).value)
    assert type(made) is type(value)
    assert np.array_equal(made, value)
    assert getattr(made, "dtype", made) == getattr(value, "dtype", value)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, 4.0, (2, 3)),
        spaces.Box(0, 255, (4, 4, 3), np.uint8, seed=3),
        spaces.Discrete(4, start=-2),
        spaces.MultiDiscrete([3, 4], start=[1, 0]),
        spaces.MultiDiscrete([[3, 4], [2, 2]]),
        spaces.MultiBinary(5),
        spaces.MultiBinary([2, 3]),
        spaces.Dict({"z": spaces.Discrete(2), "a": spaces.Box(-1, 1, (2,))}),
        spaces.Dict(collections.OrderedDict(z=spaces.Discrete(2), a=spaces.MultiBinary(2))),
    ],
    ids=repr,
)
def test_spaces(space: spaces.Space[Any]) -> None:
    for data in (pickle.dumps(space), cloudpickle.dumps(space)):
        made = known_value(read_pickle(data).value)
        assert made == space
        if isinstance(space, spaces.Dict):
            assert list(made.spaces) == list(space.spaces)


class Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


def test_calls_stay_calls(tmp_path: Path) -> None:
    data = pickle.dumps([1, Evil(tmp_path / "marker")])
    value, names = read_pickle(data)
    assert value[0] == 1
    assert isinstance(value[1], Made)
    assert value[1].function in (Name("pathlib", "Path.touch"), Name("builtins", "getattr"))
    assert any(name.module == "pathlib" for name in names)
    with pytest.raises(UnknownValue):
        known_value(value)
    assert not (tmp_path / "marker").exists()
    pickle.loads(data)
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda: 0, "the function .*lambda"),
        (io.BytesIO, "the class or function _io.BytesIO"),
        (collections.Counter("aab"), "collections.Counter"),
        (np.array([object()]), r"an array of type|malformed"),
        (torch.zeros(2), "torch"),
    ],
    ids=["function", "class", "object", "objects in an array", "tensor"],
)
def test_what_is_not_in_the_table_is_described(value: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        known_value(read_pickle(cloudpickle.dumps(value)).value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"\x80\x04",
        b"\x80\x04N",
        b"\x80\x04NN.",
        b"\x80\x04N.trailing",
        b"\x80\x04(.",
        b"\x80\x04h\x05.",
        b"\x80\x04K\x01Ka.",
        b"\x80\x04]]Ns.",
        b"\x80\x04NNb.",
        b"\x80\x04\x82\x01.",  # an extension code
        b"ios\nsystem\n.",  # INST
        b"\x80\x05\x97.",  # a buffer from outside
        b"\x80\x04}]Ns.",  # a list as key
        b"\x80\x04K\x01K\x02\x93.",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x04" + b"]" * 1_100_000 + b".",
    ],
)
def test_malformed_pickles_are_refused(data: bytes) -> None:
    with pytest.raises(ModelFileError):
        read_pickle(data)


def test_depth_and_sharing_are_bounded() -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ModelFileError, match="nested deeper"):
        known_value(read_pickle(pickle.dumps(deep)).value)
    shared: Any = [1.0] * 4
    for _ in range(6):
        shared = [shared] * 4
    assert known_value(read_pickle(pickle.dumps(shared)).value) == shared
    for _ in range(20):  # 4 ** 27 numbers for whoever walks them, though each level is there once
        shared = [shared] * 4
    with pytest.raises(ModelFileError, match="may ask for"):
        known_value(read_pickle(pickle.dumps(shared)).value)


@pytest.mark.parametrize(
    "value",
    [
        {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones((), dtype=torch.int64)},
        {"transposed": torch.arange(6.0).reshape(2, 3).T, "part": torch.arange(9.0)[2:5]},
        {"half": torch.ones(3, dtype=torch.bfloat16), "truth": torch.tensor([True, False]), "none": torch.zeros(0, 2)},
        {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0]}]},
        collections.OrderedDict(w=torch.nn.Parameter(torch.ones(2, 2))),
    ],
)
def test_torch_files_equal_torchs_own_reader(value: Any) -> None:
    stream = io.BytesIO()
    torch.save(value, stream)
    expected = torch.load(io.BytesIO(stream.getvalue()), weights_only=True)
    assert same(read_torch_file(stream.getvalue()), expected)


def same(one: Any, two: Any) -> bool:
    if isinstance(two, torch.Tensor):
        return one.dtype == two.dtype and torch.equal(one, two)
    if isinstance(two, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in two)
    if isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two)


def test_names_are_written_without_being_looked_up() -> None:
    data = write_pickle(Made(Name("no.such.module", "Thing"), (1,), state={"a": 2}))
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(data)
    value, names = read_pickle(data)
    assert names == [Name("no.such.module", "Thing")]
    assert (value.arguments, value.state) == ((1,), {"a": 2})
