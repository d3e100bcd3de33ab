"""Values as JSON: exact round trips, what has no safe form, and texts made to do harm."""

from __future__ import annotations

import json
import math
import sys
import tracemalloc
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st
from torch import nn

from proximo.errors import ModelFileError
from proximo.files import encoding
from proximo.files.encoding import (
    MAX_DEPTH,
    MAX_FILLED_BYTES,
    MAX_LISTED_ELEMENTS,
    Unsafe,
    decode,
    encode,
    register,
    register_class,
)
from proximo.files.fields import decode_fields, encode_fields
from proximo.functional.schedules import ConstantSchedule, FloatSchedule, LinearSchedule


def through_json(value: Any) -> Any:
    """Encoded, written as strict JSON text, read and decoded."""
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)))


def same(first: Any, second: Any) -> bool:
    """Equal in type and content, NaN equal to itself, -0.0 apart from 0.0."""
    if type(first) is not type(second):
        return False
    if isinstance(first, float):
        return first.hex() == second.hex()
    if isinstance(first, np.ndarray | np.generic):
        return first.dtype == second.dtype and first.shape == second.shape and repr(first) == repr(second)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[key], second[key]) for key in first)
    return bool(first == second)


# ------------------------------------------------------------------------------------------------------ round trips

leaves = st.none() | st.booleans() | st.integers(-(2**100), 2**100) | st.floats() | st.text()
trees = st.recursive(
    leaves,
    lambda children: (
        st.lists(children, max_size=4)
        | st.lists(children, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(-(2**59), 2**59), children, max_size=4)
        | st.dictionaries(st.sampled_from(["$", "value", "a"]), children, max_size=3)
    ),
    max_leaves=15,
)
numbers = st.one_of(
    np_st.boolean_dtypes(),
    np_st.integer_dtypes(endianness="="),
    np_st.unsigned_integer_dtypes(endianness="="),
    np_st.floating_dtypes(endianness="=", sizes=(16, 32, 64)),
)


@settings(max_examples=300, deadline=None)
@given(trees)
def test_trees_of_plain_values_come_back(tree: Any) -> None:
    assert same(through_json(tree), tree)


@settings(max_examples=300, deadline=None)
@given(np_st.arrays(numbers, np_st.array_shapes(min_dims=0, min_side=0, max_side=4)))
def test_arrays_come_back_bit_by_bit(array: np.ndarray) -> None:
    decoded = through_json(array)
    assert decoded.dtype == array.dtype
    assert decoded.shape == array.shape
    finite = np.ones(array.shape, bool) if array.dtype.kind != "f" else ~np.isnan(array)
    assert decoded[finite].tobytes() == array[finite].tobytes()
    assert np.array_equal(np.isnan(decoded.astype(float)), np.isnan(array.astype(float)))


def test_minus_zero_is_not_zero() -> None:
    assert np.signbit(through_json(np.array([0.0, -0.0, 0.0]))).tolist() == [False, True, False]
    assert np.signbit(through_json(np.full(3, -0.0))).all()


@pytest.mark.parametrize(
    "scalar", [np.float32(0.1), np.float64("nan"), np.int64(-5), np.uint8(255), np.bool_(True), np.float16("-inf")]
)
def test_numpy_scalars_keep_their_type(scalar: np.generic) -> None:
    assert same(through_json(scalar), scalar)


def box_spaces() -> st.SearchStrategy[spaces.Box]:
    @st.composite
    def build(draw: st.DrawFn) -> spaces.Box:
        dtype = draw(st.sampled_from([np.float32, np.float64, np.float16, np.int8, np.int32, np.int64, np.uint8]))
        shape = draw(np_st.array_shapes(min_dims=0, max_dims=3, max_side=3))
        if np.dtype(dtype).kind == "f":
            elements: Any = np_st.from_dtype(np.dtype(dtype), allow_nan=False)
        else:
            elements = st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
        fill = st.nothing() if draw(st.booleans()) else None
        bounds = draw(np_st.arrays(dtype, (2, *shape), elements=elements, fill=fill))
        return spaces.Box(bounds.min(axis=0), bounds.max(axis=0), shape, dtype)

    return build()


@st.composite
def multi_discrete_spaces(draw: st.DrawFn) -> spaces.MultiDiscrete[Any]:
    counts = draw(np_st.arrays(np.int64, np_st.array_shapes(max_dims=2, max_side=4), elements=st.integers(1, 9)))
    start = draw(np_st.arrays(np.int64, counts.shape, elements=st.integers(-5, 5)))
    return spaces.MultiDiscrete(counts, dtype=draw(st.sampled_from([np.int64, np.int32])), start=start)


simple_spaces = (
    box_spaces()
    | st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 99), st.integers(-9, 9))
    | multi_discrete_spaces()
    | st.builds(spaces.MultiBinary, st.integers(1, 9) | st.lists(st.integers(1, 4), min_size=1, max_size=3))
)
all_spaces = st.recursive(
    simple_spaces,
    lambda parts: (
        st.dictionaries(st.text(max_size=5), parts, max_size=3).map(spaces.Dict)
        | st.lists(parts, min_size=1, max_size=3).map(spaces.Tuple)
    ),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(all_spaces)
def test_spaces_come_back(space: spaces.Space[Any]) -> None:
    decoded = through_json(space)
    assert type(decoded) is type(space)
    assert decoded == space
    assert decoded.shape == space.shape
    assert decoded.dtype == space.dtype
    if isinstance(space, spaces.Box):  # gymnasium's equality is approximate
        assert decoded.low.tobytes() == space.low.tobytes()
        assert decoded.high.tobytes() == space.high.tobytes()


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-2.0, np.inf, (3,)),
        spaces.Box(0, 255, (2, 2), np.uint8),
        spaces.Discrete(5, start=-2),
        spaces.MultiDiscrete([3, 4], start=[1, -1]),
        spaces.Dict(b=spaces.MultiBinary([2, 2]), a=spaces.Tuple([spaces.Discrete(9), spaces.Box(0, 1)])),
    ],
)
def test_decoded_spaces_sample_alike(space: spaces.Space[Any]) -> None:
    decoded = through_json(space)
    space.seed(0)
    decoded.seed(0)
    assert repr(decoded.sample()) == repr(space.sample())


def test_details_of_spaces_beyond_equality() -> None:
    endless = spaces.Box(-np.inf, np.inf, (2,), np.int32)
    assert endless.bounded_below.tolist() == [False, False]
    assert through_json(endless).bounded_below.tolist() == [False, False]
    assert through_json(endless).is_bounded("above") is False
    unsorted = spaces.Dict(OrderedDict([("z", spaces.Discrete(2)), ("a", spaces.Discrete(3))]))
    assert list(through_json(unsorted).spaces) == ["z", "a"]
    assert through_json(spaces.Discrete(3, dtype=np.int32)).dtype == np.int32
    assert through_json(spaces.MultiBinary(4)).n == 4
    cart_pole = np.array([4.8, np.inf, 0.41887903, np.inf], np.float32)
    assert through_json(spaces.Box(-cart_pole, cart_pole)).high.tobytes() == cart_pole.tobytes()


def test_a_uniform_space_is_short_however_large() -> None:
    text = json.dumps(encode(spaces.Box(0, 255, (210, 160, 3), np.uint8)))
    assert len(text) < 250
    assert decode(json.loads(text)) == spaces.Box(0, 255, (210, 160, 3), np.uint8)


@pytest.mark.parametrize(
    "schedule",
    [
        ConstantSchedule(0.2),
        LinearSchedule(3e-4, 0.0, 0.9),
        LinearSchedule(np.float64(1.0), 0, 1),
        FloatSchedule(0.1),
        FloatSchedule(LinearSchedule(1.0, 0.5, 0.25)),
    ],
)
def test_schedules_come_back(schedule: Any) -> None:
    decoded = through_json(schedule)
    assert decoded == schedule
    assert [decoded(progress) for progress in (1.0, 0.8, 0.3, 0.0)] == [schedule(p) for p in (1.0, 0.8, 0.3, 0.0)]


@pytest.mark.parametrize("cls", [nn.Tanh, nn.ReLU, nn.ELU, nn.LeakyReLU, nn.SiLU, nn.GELU, nn.Sigmoid, nn.Softplus])
def test_activations_by_bare_name(cls: type) -> None:
    assert encode(cls) == {"$": "class", "value": cls.__name__}
    assert through_json(cls) is cls


@pytest.mark.parametrize("cls", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.SGD])
def test_optimizers_by_bare_name(cls: type) -> None:
    assert through_json(cls) is cls


def test_devices_and_paths() -> None:
    assert through_json(torch.device("cuda:1")) == torch.device("cuda", 1)
    assert through_json(Path("logs") / "run") == Path("logs/run")


def test_an_ordered_dictionary_becomes_a_plain_one() -> None:
    assert same(through_json(OrderedDict(b=1, a=2)), {"b": 1, "a": 2})


# ---------------------------------------------------------------------------------------------------------- registry


class Colour:
    def __init__(self, red: float, tags: tuple[str, ...]) -> None:
        self.red, self.tags = red, tags


class DarkColour(Colour):
    pass


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of the tables, so that what a test registers is gone after it."""
    for name in ("_KIND_OF_TYPE", "_KINDS", "_CLASSES", "_NAME_OF_CLASS"):
        monkeypatch.setattr(encoding, name, dict(getattr(encoding, name)))


@pytest.mark.usefixtures("tables")
def test_registered_types_and_classes() -> None:
    register("Colour", Colour, lambda it: {"red": it.red, "tags": it.tags}, lambda plain: Colour(**plain))
    register_class("MlpPolicy", Colour)
    decoded = through_json([Colour(math.inf, ("a", "b")), Colour])
    assert (decoded[0].red, decoded[0].tags) == (math.inf, ("a", "b"))
    assert decoded[1] is Colour
    with pytest.raises(Unsafe, match="object of class DarkColour"):
        encode(DarkColour(0.0, ()))
    with pytest.raises(Unsafe, match="class DarkColour"):
        encode(DarkColour)


@pytest.mark.usefixtures("tables")
def test_names_are_taken_once() -> None:
    register("Colour", Colour, vars, Colour)
    register("Colour", Colour, vars, Colour)
    register_class("Tanh", nn.Tanh)
    with pytest.raises(ValueError, match="kind 'Colour' is taken"):
        register("Colour", DarkColour, vars, DarkColour)
    with pytest.raises(ValueError, match="kind 'tuple' is taken"):
        register("tuple", Colour, vars, Colour)
    with pytest.raises(ValueError, match="class name 'Tanh' is taken"):
        register_class("Tanh", Colour)


@pytest.mark.usefixtures("tables")
def test_two_names_for_one_class_both_load() -> None:
    register_class("ColourPolicy", Colour)
    register_class("ColourAlias", Colour)
    assert encode(Colour) == {"$": "class", "value": "ColourPolicy"}
    assert decode({"$": "class", "value": "ColourAlias"}) is Colour


# ------------------------------------------------------------------------------------------------------ no safe form


def named_function(progress: float) -> float:
    return progress


class Extractor(nn.Module):
    pass


@pytest.mark.parametrize(
    ("value", "description"),
    [
        (lambda progress: progress, "function <lambda>"),
        (named_function, "function named_function"),
        (Extractor, "class Extractor"),
        (Extractor(), "object of class Extractor"),
        (object(), "object of class object"),
        (b"bytes", "object of class bytes"),
        ({1, 2}, "object of class set"),
        (1j, "object of class complex"),
        ({(1, 2): 3}, "dict with keys"),
        ({True: 3}, "dict with keys"),
        (np.array(["text"]), "array of <U4"),
        (np.array([object()]), "array of object"),
        (np.zeros(2, ">f4"), "array of >f4"),
        (np.arange(MAX_LISTED_ELEMENTS + 1), "array of 65537 int64 values"),
        (np.broadcast_to(np.uint8(0), (MAX_FILLED_BYTES + 1,)), "array of 25165825 uint8 values"),
        (10**400, "integer of 1329 bits"),
        (spaces.Text(5), "object of class Text"),
        (FloatSchedule(lambda progress: progress), "function <lambda>"),
        (["deep", ("in", {"a": [named_function]})], "function named_function"),
    ],
)
def test_what_has_no_safe_form_is_described(value: Any, description: str) -> None:
    with pytest.raises(Unsafe) as caught:
        encode(value)
    assert str(caught.value).startswith(description)


def test_depth_is_bounded_and_circles_end() -> None:
    nested: Any = "leaf"
    for _ in range(MAX_DEPTH):
        nested = [nested]
    assert through_json(nested) == nested
    with pytest.raises(Unsafe, match="nested deeper"):
        encode([nested])
    circle: dict[str, Any] = {}
    circle["again"] = circle
    with pytest.raises(Unsafe, match="nested deeper"):
        encode(circle)
    _, needs = encode_fields({"circle": circle})
    assert list(needs.values()) == [f"nested deeper than {MAX_DEPTH} levels"]


# ------------------------------------------------------------------------------------------------------------ fields

FIELDS = {
    "n_steps": 128,
    "learning_rate": lambda progress: 1e-3 * progress,
    "observation_space": spaces.Discrete(3),
    "policy_kwargs": {
        "net_arch": {"pi": [64], "vf": [32]},
        "activation_fn": nn.ReLU,
        "features_extractor_class": Extractor,
        "features_extractor_kwargs": {"size": 8, "build": named_function},
    },
}


def saved_fields() -> tuple[Any, Any]:
    encoded, needs = encode_fields(FIELDS)
    return json.loads(json.dumps(encoded)), json.loads(json.dumps(needs))


def test_needs_name_only_the_unsafe_parts() -> None:
    encoded, needs = saved_fields()
    assert needs == {
        "learning_rate": "function <lambda>",
        "policy_kwargs.features_extractor_class": "class Extractor",
        "policy_kwargs.features_extractor_kwargs.build": "function named_function",
    }
    assert encoded["n_steps"] == 128
    assert encoded["policy_kwargs"]["features_extractor_kwargs"] == {"size": 8}


def test_the_error_lists_all_that_is_missing_and_shows_the_call() -> None:
    encoded, needs = saved_fields()
    with pytest.raises(ModelFileError) as caught:
        decode_fields(encoded, needs, {"learning_rate": 3e-4}, loader="A2C.load")
    message = str(caught.value)
    assert "policy_kwargs.features_extractor_class (class Extractor)" in message
    assert "learning_rate" not in message
    assert (
        'A2C.load(path, custom_objects={"policy_kwargs.features_extractor_class": ..., '
        '"policy_kwargs.features_extractor_kwargs.build": ...})'
    ) in message


def test_dotted_names_supply_parts() -> None:
    fields = decode_fields(
        *saved_fields(),
        {
            "learning_rate": 3e-4,
            "policy_kwargs.features_extractor_class": Extractor,
            "policy_kwargs.features_extractor_kwargs.build": named_function,
        },
    )
    assert fields["learning_rate"] == 3e-4
    assert fields["policy_kwargs"] == FIELDS["policy_kwargs"]
    assert fields["observation_space"] == spaces.Discrete(3)


def test_a_whole_field_replaces_its_parts() -> None:
    fields = decode_fields(*saved_fields(), {"learning_rate": 1.0, "policy_kwargs": {"net_arch": [8]}})
    assert fields["policy_kwargs"] == {"net_arch": [8]}
    mine = {"net_arch": [8]}
    decode_fields(*saved_fields(), {"learning_rate": 1.0, "policy_kwargs": mine, "policy_kwargs.net_arch": [16]})
    assert mine == {"net_arch": [8]}


def test_custom_objects_override_what_was_written_without_decoding_it() -> None:
    fields = decode_fields({"n_steps": 1, "space": {"$": "nonsense", "value": 0}}, {}, {"space": None, "other": 1})
    assert fields == {"n_steps": 1, "space": None}
    fields = decode_fields({"policy_kwargs": {"net_arch": [64]}}, {}, {"policy_kwargs.net_arch": [8]})
    assert fields == {"policy_kwargs": {"net_arch": [8]}}


def test_a_key_with_a_dot_makes_the_whole_dictionary_the_need() -> None:
    encoded, needs = encode_fields({"a": {"x.y": named_function, "z": 1}, "b": {"x.y": 1}})
    assert encoded == {"b": {"x.y": 1}}
    assert needs == {"a": "function named_function"}
    assert decode_fields(encoded, needs, {"a": 5}) == {"b": {"x.y": 1}, "a": 5}


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(), trees, max_size=4))
def test_safe_fields_need_nothing(fields: dict[str, Any]) -> None:
    encoded, needs = encode_fields(fields)
    assert needs == {}
    assert same(decode_fields(json.loads(json.dumps(encoded)), needs), fields)


@pytest.mark.parametrize("wrong", [[("learning_rate", 1.0)], "learning_rate", {3: 4}])
def test_custom_objects_of_another_kind(wrong: Any) -> None:
    with pytest.raises(TypeError, match="custom_objects maps names to values"):
        decode_fields({}, {}, wrong)


def test_texts_of_the_file_cannot_write_on_the_terminal() -> None:
    with pytest.raises(ModelFileError) as caught:
        decode_fields({}, {"\x1b[2Jname": "\x1b]0;title\x07" + "x" * 10_000})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


# ----------------------------------------------------------------------------------------------------------- hostile


def tagged(kind: Any, value: Any, **more: Any) -> Any:
    return {"$": kind, "value": value, **more}


def array(dtype: Any = "float32", shape: Any = (1,), **values: Any) -> Any:
    return tagged("array", {"dtype": dtype, "shape": list(shape) if isinstance(shape, tuple) else shape, **values})


def deep(levels: int) -> Any:
    nested: Any = 1
    for _ in range(levels):
        nested = {"a": nested}
    return nested


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (tagged("os.system", "true"), "kind of value 'os.system', which this program does not know"),
        (tagged("Boxx", {}), "did you mean 'Box'"),
        (tagged("class", "os.system"), "class 'os.system', which this program does not know"),
        (tagged("class", "torch.nn.Tanh"), "does not know"),
        (tagged("class", "tanh"), "did you mean 'Tanh'"),
        (tagged("class", ["Tanh"]), "expected str, got list"),
        (tagged(3, 1), "unknown way"),
        (tagged("tuple", [], extra=1), "unknown way"),
        ({"$": "tuple"}, "unknown way"),
        (tagged("tuple", "ab"), "expected list, got str"),
        (tagged("float", "1.5"), "kind 'float'"),
        (tagged("float", 1.5), "expected str"),
        (tagged("dict", [[1.5, 2]]), "dictionary key"),
        (tagged("dict", [["a"]]), "kind 'dict'"),
        (tagged("dict", [[[], 1]]), "dictionary key"),
        (array("float32", (2**40,), fill=0), "may ask for"),
        (array("float32", (2**32, 2**32), fill=0), "may ask for"),
        (array("float32", (-1,), values=[]), "impossible shape"),
        (array("float32", (1,) * 33, values=[1]), "impossible shape"),
        (array("float32", (2,), values=[1]), "malformed"),
        (array("float32", (1.0,), values=[1]), "expected int"),
        (array("float32", "1", values=[1]), "expected list"),
        (array("float32", (1,), values=["1.0"]), "malformed"),
        (array("float32", (1,), values=[True]), "expected int, got bool"),
        (array("float32", (1,), values=[[1.0]]), "expected int, got list"),
        (array("uint8", (1,), values=[300]), "does not fit uint8"),
        (array("uint8", (1,), values=[-1]), "does not fit uint8"),
        (array("int64", (1,), values=[1.5]), "expected int"),
        (array("bool", (1,), values=[1]), "expected bool"),
        (array("object", (1,), values=[1]), "array type 'object'"),
        (array("U9999999", (1,), values=["a"]), "array type"),
        (array("float32", (1,)), "malformed"),
        (tagged("array", [1]), "expected dict"),
        (tagged("scalar", {"dtype": "int8", "shape": [2], "values": [1, 2]}), "malformed"),
        (tagged("Box", {}), "malformed"),
        (tagged("Box", {"low": 0, "high": 1}), "expected ndarray"),
        (tagged("Box", {"low": array(values=[1]), "high": array(values=[0])}), "malformed"),
        (tagged("Box", {"low": array(values=[0]), "high": array("float64", values=[1])}), "bounds of a Box"),
        (tagged("Box", {"low": array(values=[0]), "high": array(shape=(2,), values=[1, 1])}), "malformed"),
        (tagged("Discrete", {"n": 0, "start": 0, "dtype": "int64"}), "malformed"),
        (tagged("Discrete", {"n": 2, "start": 0, "dtype": "eval"}), "array type 'eval'"),
        (tagged("Discrete", {"n": 2.5, "start": 0, "dtype": "int64"}), "expected int"),
        (tagged("MultiBinary", "abc"), "malformed"),
        (tagged("MultiDiscrete", {"nvec": [2], "start": [0]}), "expected ndarray"),
        (tagged("Dict", [["a", 3]]), "malformed"),
        (tagged("Tuple", [3]), "malformed"),
        (tagged("device", "file:///etc/passwd"), "malformed"),
        (tagged("device", 0), "expected str"),
        (tagged("LinearSchedule", [1, 2]), "malformed"),
        (tagged("LinearSchedule", [1, 2, "3"]), "expected a number"),
        (tagged("ConstantSchedule", [1]), "expected a number"),
        (tagged("FloatSchedule", tagged("class", "Adam")), "expected a schedule"),
        (tagged("FloatSchedule", 0.5), "expected a schedule"),
        (deep(MAX_DEPTH + 1), "nested deeper"),
        (deep(900), "nested deeper"),
    ],
)
def test_malformed_values_are_refused(encoded: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        decode(encoded)


def test_many_small_texts_cannot_ask_for_much_memory_together() -> None:
    bombs = [array("uint8", (2**22,), fill=0)] * 1000
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="may ask for"):
            decode(bombs)
        assert tracemalloc.get_traced_memory()[1] < 160 * 2**20
        with pytest.raises(ModelFileError, match="may ask for"):
            decode_fields({str(index): bomb for index, bomb in enumerate(bombs)}, {})
        assert tracemalloc.get_traced_memory()[1] < 160 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("encoded", "needs"), [([], {}), ({}, []), ({}, {"a": 1}), (None, None)])
def test_malformed_tables_are_refused(encoded: Any, needs: Any) -> None:
    with pytest.raises(ModelFileError, match="malformed"):
        decode_fields(encoded, needs)


def test_a_dotted_name_through_something_else_is_refused() -> None:
    with pytest.raises(ModelFileError, match="holds no dictionary there"):
        decode_fields({"a": [1]}, {"a.b": "class X"}, {"a.b": 1})


def test_decoding_imports_nothing() -> None:
    before = set(sys.modules)
    for name in ("antigravity", "antigravity.fly", "this"):
        for kind in ("class", name):
            with pytest.raises(ModelFileError):
                decode(tagged(kind, name))
    assert "antigravity" not in set(sys.modules) - before


json_noise = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["nan", "Tanh", "int8"]),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(st.sampled_from(["dtype", "shape", "values", "fill", "low", "high", "n", "x"]), children)
        | st.builds(tagged, st.sampled_from([*encoding._KINDS, *encoding._BUILT_IN_KINDS]), children)
    ),
    max_leaves=12,
)


@settings(max_examples=500, deadline=None)
@given(json_noise)
def test_noise_is_decoded_or_refused(noise: Any) -> None:
    try:
        decode(noise)
    except ModelFileError:
        return


# ---------------------------------------------------------------------------------------------- arrays beside the JSON


@settings(max_examples=100, deadline=None)
@given(np_st.arrays(numbers, np_st.array_shapes(min_dims=1, max_dims=2, max_side=8)))
def test_stored_arrays_come_back_bit_by_bit(array: np.ndarray) -> None:
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(encode({"parts": (array, torch.ones(2))}, tensors), allow_nan=False)
    assert len(tensors) == (2 if array.size > encoding.LISTED_ELEMENTS else 1)
    decoded, tensor = decode(json.loads(text), tensors)["parts"]
    assert (decoded.dtype, decoded.shape) == (array.dtype, array.shape)
    finite = np.ones(array.shape, bool) if array.dtype.kind != "f" else ~np.isnan(array)
    assert decoded[finite].tobytes() == array[finite].tobytes()
    assert torch.equal(tensor, torch.ones(2))
    assert all(not np.shares_memory(decoded, stored.numpy()) for stored in tensors.values())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["1", "float32"], "lacks the tensor '1'"),
        (["0", "int8"], "is float32, its manifest says int8"),
        (["0", "complex64"], "array type 'complex64'"),
        (["0"], "kind 'stored'"),
        ([0, "float32"], "kind 'stored'"),
        ("0", "kind 'stored'"),
    ],
)
def test_a_stored_array_that_is_not_as_the_manifest_says(value: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        decode({"$": "stored", "value": value}, {"0": torch.zeros(20)})
