"""Pickles read as text: what a pickle *says* is built of plain data, and nothing of what it says is done.

A pickle is a program for a stack machine. :func:`read_pickle` runs that program with a machine that has no imports and
no calls: a name stays a :class:`Name`, a call stays a :class:`Made` that remembers what would have been called with
what. What comes out is a tree that other code may translate, by exact (module, name) pairs, into values it knows
(:mod:`proximo.files.known_values`), or show to a person. There is no way from here to code: neither ``pickle`` nor
``importlib`` is used.

>>> read_pickle(b"cposix\\nsystem\\n(S'touch /tmp/x'\\ntR.").value
Made(function=Name(module='posix', name='system'), arguments=('touch /tmp/x',))

:func:`write_pickle` goes the other way, for programs that read nothing else.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from proximo.errors import ModelFileError
from proximo.files.budgets import Budgets
from proximo.files.plain_text import brief, printable

# None, bool, int, float, str, bytes, list, tuple, dict, and the classes below; it may be nested without end, or within
# itself, so nothing hashes, compares or prints it: only known_values walks it, and counts as it goes
Inert: TypeAlias = Any

MAX_BYTES = 256 * 2**20
MAX_NAMES = 4096
MAX_KEY_LENGTH = 1000
MAX_INTEGER_BITS = 2048

_MADE_BYTES = 512


@dataclass(frozen=True)
class Name:
    """A global that a pickle refers to: never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False, slots=True)
class Made:
    """An object that a pickle would make by calling ``function``: never called."""

    function: Inert
    arguments: tuple[Inert, ...]
    keywords: dict[str, Inert] = field(default_factory=dict, repr=False)
    state: Inert = field(default=None, repr=False)  # what ``__setstate__`` would get
    items: list[Inert] = field(default_factory=list, repr=False)  # what would be appended
    entries: dict[Inert, Inert] = field(default_factory=dict, repr=False)  # what would be set by key
    new: bool = field(default=True, repr=False)  # by ``__new__`` (or else by a call)


@dataclass(frozen=True, eq=False, slots=True)
class Persistent:
    """Something that a pickle keeps outside itself, as torch does the memory of its tensors."""

    identifier: Inert


@dataclass(frozen=True, eq=False, slots=True)
class OpaqueKey:
    """A key of a dictionary that is not hashed: what it stands for may be long, deep or made to collide."""

    value: Inert


class Reading(NamedTuple):
    """What a pickle says, and every global that it names, in order of appearance."""

    value: Inert
    names: list[Name]


def read_pickle(data: bytes, budgets: Budgets | None = None) -> Reading:
    """The content of a pickle of protocol 2 to 5 as inert data; :class:`ModelFileError` for anything malformed.

    Memory is bounded by the length of the data: what a pickle refers to twice is there once.
    """
    if len(data) > MAX_BYTES:
        raise ModelFileError(f"a pickle of {len(data)} bytes, the budget is {MAX_BYTES}")
    budgets = budgets or Budgets()
    machine = _Machine(budgets)
    position = -1
    try:
        for operation, argument, place in pickletools.genops(data):
            budgets.work()
            position = place or 0
            machine.step(operation.name, argument)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"a malformed pickle, after byte {position}: {printable(str(error))}") from error
    if position != len(data) - 1 or len(machine.stack) != 1 or machine.stack[0] is _MARK:
        raise ModelFileError("a malformed pickle: it goes on after its end, or does not leave one value")
    return Reading(machine.pop(), list(machine.names))


class _Mark:
    """Stands on the stack where a group of values begins."""


_MARK = _Mark()
_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
}
_CONSTANTS: dict[str, Callable[[], Inert]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "MARK": lambda: _MARK,
}
_IGNORED = frozenset({"PROTO", "FRAME", "STOP"})
# cloudpickle gives a function its state by a call whose result it drops; for us that is what BUILD is
_SET_STATE = {Name(f"cloudpickle.{module}", "_function_setstate") for module in ("cloudpickle", "cloudpickle_fast")}


class _Machine:
    """The stack machine of pickles, without its teeth."""

    def __init__(self, budgets: Budgets) -> None:
        self.budgets = budgets
        self.stack: list[Inert] = []
        self.memo: dict[int, Inert] = {}
        self.names: dict[Name, None] = {}  # as an ordered set

    def step(self, operation: str, argument: Any) -> None:
        if operation in _LITERALS:
            if isinstance(argument, int) and argument.bit_length() > MAX_INTEGER_BITS:
                raise ValueError(f"an integer of {argument.bit_length()} bits")
            self.stack.append(bytes(argument) if isinstance(argument, bytearray) else argument)
        elif operation in _CONSTANTS:
            self.stack.append(_CONSTANTS[operation]())
        elif operation not in _IGNORED:
            method = getattr(self, f"do_{operation.lower()}", None)
            if method is None:
                raise ValueError(f"the operation {operation} has no place in a model file")
            method(argument)

    def pop(self) -> Inert:
        value = self.stack.pop()
        if value is _MARK:
            raise ValueError("a value is missing")
        return value

    def pop_to_mark(self) -> list[Inert]:
        start = len(self.stack) - 1
        while self.stack[start] is not _MARK:
            start -= 1
            if start < 0:
                raise ValueError("a mark is missing")
        values = self.stack[start + 1 :]
        del self.stack[start:]
        return values

    # -- the stack and the memo

    def do_pop(self, _: None) -> None:
        self.stack.pop()

    def do_pop_mark(self, _: None) -> None:
        self.pop_to_mark()

    def do_dup(self, _: None) -> None:
        self.stack.append(self.stack[-1])

    def do_memoize(self, _: None) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def do_put(self, index: int) -> None:
        if not 0 <= index < 2**32:  # far larger ones can be chosen to have one hash
            raise ValueError(f"a place {brief(index)} in the memo")
        self.memo[index] = self.stack[-1]

    do_binput = do_long_binput = do_put

    def do_get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    do_binget = do_long_binget = do_get

    # -- containers

    def do_tuple(self, _: None) -> None:
        self.stack.append(tuple(self.pop_to_mark()))

    def do_tuple1(self, _: None) -> None:
        self.stack.append((self.pop(),))

    def do_tuple2(self, _: None) -> None:
        second, first = self.pop(), self.pop()
        self.stack.append((first, second))

    def do_tuple3(self, _: None) -> None:
        third, second, first = self.pop(), self.pop(), self.pop()
        self.stack.append((first, second, third))

    def do_list(self, _: None) -> None:
        self.stack.append(self.pop_to_mark())

    def do_dict(self, _: None) -> None:
        values = self.pop_to_mark()
        self.stack.append({})
        self._set_items(values)

    def do_append(self, _: None) -> None:
        self._extend([self.pop()])

    def do_appends(self, _: None) -> None:
        self._extend(self.pop_to_mark())

    def do_setitem(self, _: None) -> None:
        value, key = self.pop(), self.pop()
        self._set_items([key, value])

    def do_setitems(self, _: None) -> None:
        self._set_items(self.pop_to_mark())

    def _extend(self, values: list[Inert]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list | Made):
            raise TypeError("something is appended to what is no list")
        (target.items if isinstance(target, Made) else target).extend(values)

    def _set_items(self, values: list[Inert]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict | Made) or len(values) % 2:
            raise TypeError("entries are set in what is no dictionary, or a value is missing")
        table = target.entries if isinstance(target, Made) else target
        for key, value in zip(values[::2], values[1::2], strict=True):
            table[_checked_key(key)] = value

    # -- names and calls, which stay what they are

    def do_global(self, text: str) -> None:
        module, _, name = text.partition(" ")
        self._push_name(module, name)

    def do_stack_global(self, _: None) -> None:
        name, module = self.pop(), self.pop()
        self._push_name(module, name)

    def _push_name(self, module: Inert, name: Inert) -> None:
        if not isinstance(module, str) or not isinstance(name, str) or len(module) + len(name) > 1000:
            raise TypeError("a global is named by something else than two short texts")
        known = Name(module, name)
        self.names.setdefault(known)
        if len(self.names) > MAX_NAMES:
            raise ValueError(f"more than {MAX_NAMES} globals")
        self.stack.append(known)

    def do_reduce(self, _: None) -> None:
        arguments, function = self.pop(), self.pop()
        self._make(function, arguments, new=False)

    def do_newobj(self, _: None) -> None:
        arguments, cls = self.pop(), self.pop()
        self._make(cls, arguments)

    def do_newobj_ex(self, _: None) -> None:
        keywords, arguments, cls = self.pop(), self.pop(), self.pop()
        if not isinstance(keywords, dict):
            raise TypeError("keywords of a call are no dictionary")
        self._make(cls, arguments, keywords)

    def _make(
        self, function: Inert, arguments: Inert, keywords: dict[str, Inert] | None = None, new: bool = True
    ) -> None:
        if not isinstance(arguments, tuple):
            raise TypeError("arguments of a call are no tuple")
        self.budgets.make(_MADE_BYTES)
        sets_state = isinstance(function, Name) and function in _SET_STATE and len(arguments) == 2
        if sets_state and isinstance(arguments[0], Made):
            arguments[0].state = arguments[1]
        self.stack.append(Made(function, arguments, keywords or {}, new=new))

    def do_build(self, _: None) -> None:
        state, target = self.pop(), self.stack[-1]
        if not isinstance(target, Made):
            raise TypeError("a state is given to what is no object")
        target.state = state

    def do_binpersid(self, _: None) -> None:
        self.stack.append(Persistent(self.pop()))


def _checked_key(key: Inert) -> Inert:
    """A key that is safe to hash as it is, and anything else as something opaque.

    Short texts have a hash that a file cannot foresee, small integers are their own; long keys cost their length each
    time, and those of nested tuples recurse without limit.
    """
    match key:
        case None | bool() | Name():
            return key
        case str() if len(key) <= MAX_KEY_LENGTH:
            return key
        case int() if -(2**60) < key < 2**60:
            return key
        case list() | dict():
            raise TypeError(f"a dictionary has a key of type {type(key).__name__}")
    return OpaqueKey(key)


# ---------------------------------------------------------------------------------------------------------- writing


def write_pickle(value: Inert) -> bytes:
    """A pickle (protocol 4) of inert data; names are written as they stand, without looking them up."""
    return b"\x80\x04" + b"".join(_pieces(value)) + b"."


def _pieces(value: Inert) -> list[bytes]:
    match value:
        case None | True | False:
            return [{None: b"N", True: b"\x88", False: b"\x89"}[value]]
        case int():
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            return [b"\x8b", struct.pack("<i", len(data)), data]
        case float():
            return [b"G", struct.pack(">d", value)]
        case str():
            data = value.encode("utf-8", "surrogatepass")
            return [b"X", struct.pack("<I", len(data)), data]
        case bytes():
            return [b"B", struct.pack("<I", len(value)), value]
        case list():
            return [b"](", *_all_pieces(value), b"e"]
        case tuple():
            return [b"(", *_all_pieces(value), b"t"]
        case dict():
            return [b"}(", *_all_pieces([part for entry in value.items() for part in entry]), b"u"]
        case Name():
            return [*_pieces(value.module), *_pieces(value.name), b"\x93"]
        case Made() if not (value.keywords or value.items or value.entries):
            state = [] if value.state is None else [*_pieces(value.state), b"b"]
            return [*_pieces(value.function), *_pieces(value.arguments), b"\x81" if value.new else b"R", *state]
    raise TypeError(f"{type(value).__name__} is not inert data that can be written")


def _all_pieces(values: list[Inert] | tuple[Inert, ...]) -> list[bytes]:
    return [piece for value in values for piece in _pieces(value)]
