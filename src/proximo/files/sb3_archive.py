"""Model files of Stable-Baselines3 and sb3-contrib: what is in them, read without unpickling anything.

Such a file is a zip of ``data`` (JSON in which whatever is no JSON stands as a base64 pickle), ``policy.pth`` and
``policy.optimizer.pth`` (torch's format, pickles too) and texts. All pickles go through the restricted reader.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO, Any

from proximo.errors import ModelFileError
from proximo.files.budgets import MIB, Budgets
from proximo.files.known_values import UnknownValue, known_value
from proximo.files.plain_text import parse_json, shown
from proximo.files.restricted_pickle import Inert, Name, read_pickle
from proximo.files.torch_file import read_torch_file
from proximo.files.zips import Members, Source, member_names, opened, read_members

SERIALIZED = ":serialized:"
TYPE = ":type:"
VERSION_MEMBER = "_stable_baselines3_version"
MEMBERS = (
    *("data", "policy.pth", "policy.optimizer.pth", "pytorch_variables.pth", "tensors.pth"),
    *(VERSION_MEMBER, "system_info.txt"),
)


@dataclass
class Sb3Archive:
    """What a file holds: values, those that are code and stay unread, weights, and where it comes from."""

    data: dict[str, Any]  # plain values, and pickled ones as {":serialized:": …}
    policy: dict[str, Any]  # the state dictionaries
    optimizer: dict[str, Any]
    version: str
    system: str
    members: dict[str, int]  # sizes
    budgets: Budgets
    needs: dict[str, str] = field(default_factory=dict)  # dotted names of what could not be read, described

    def fields(self, names: Iterable[str]) -> dict[str, Any]:
        """The values of those fields that the file has; what is code is left out and described in ``needs``."""
        fields: dict[str, Any] = {}
        for name in names:
            if name not in self.data:
                continue
            value = self.data[name]
            if not is_serialized(value):
                fields[name] = value
                continue
            inert = self.pickled(name)[0]
            if isinstance(inert, dict) and all(isinstance(key, str) for key in inert):
                fields[name] = {}
                for part, item in inert.items():
                    self._put(fields[name], part, item, f"{name}.{part}")
            else:
                self._put(fields, name, inert, name)
        return fields

    def _put(self, into: dict[str, Any], key: str, inert: Inert, path: str) -> None:
        try:
            into[key] = known_value(inert, self.budgets)
        except UnknownValue as unknown:
            self.needs[path] = str(unknown)

    def pickled(self, name: str) -> tuple[Inert, list[Name]]:
        """What the pickle of a field says, and the globals that it names."""
        text = self.data[name][SERIALIZED]
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ModelFileError(f"the field {shown([name])} is not base64 ({error})") from error
        try:
            return read_pickle(data, self.budgets)
        except ModelFileError as error:
            raise ModelFileError(f"the field {shown([name])} is {error}") from error


def is_serialized(value: Any) -> bool:
    return isinstance(value, dict) and SERIALIZED in value


def is_sb3_archive(stream: IO[bytes]) -> bool:
    """Whether a file looks like one of Stable-Baselines3's; leaves the stream at its start."""
    return _looks_like_sb3(member_names(stream))


def _looks_like_sb3(names: list[str]) -> bool:
    return VERSION_MEMBER in names or {"data", "policy.pth"} <= set(names)


def read_sb3_archive(source: Source, weights: bool = True) -> Sb3Archive:
    """Read a file; nothing in it is executed, imported or unpickled. ``weights=False`` leaves the tensors unread."""
    budgets = Budgets(json_bytes=16 * MIB, members=16)
    with opened(source) as (stream, _):
        members = read_members(stream, budgets, lambda name: name in MEMBERS, _recognize)
        budgets.grant(members.file_bytes)
        if "data" not in members or "policy.pth" not in members:
            raise ModelFileError(f"it holds {shown(list(members.entries))}; a model needs 'data' and 'policy.pth'")
        data = parse_json(members.read("data"), budgets, "'data'", strict=False)
        if not isinstance(data, dict):
            raise ModelFileError(f"'data' is a {type(data).__name__}, expected a table of fields")
        return Sb3Archive(
            data=data,
            policy=_state_dict(members, "policy.pth", budgets) if weights else {},
            optimizer=_state_dict(members, "policy.optimizer.pth", budgets) if weights else {},
            version=_text(members, VERSION_MEMBER),
            system=_text(members, "system_info.txt"),
            members=members.sizes(),
            budgets=budgets,
        )


def _recognize(names: list[str]) -> None:
    if not _looks_like_sb3(names):
        raise ModelFileError(f"no model file of Stable-Baselines3 (it holds {shown(names)})")
    networks = [name for name in names if name.endswith(".pth") and name not in MEMBERS]
    if networks:
        raise ModelFileError(
            f"a Stable-Baselines3 model with {shown(networks)}: of an off-policy algorithm (SAC, TD3, DQN, …), which "
            "Proximo does not have; load it with Stable-Baselines3"
        )


def _state_dict(members: Members, name: str, budgets: Budgets) -> dict[str, Any]:
    if name not in members:
        return {}
    try:
        value = read_torch_file(members.read(name), budgets)
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from error
    if not isinstance(value, dict):
        raise ModelFileError(f"{name} holds a {type(value).__name__}, expected a state dictionary")
    return value


def _text(members: Members, name: str) -> str:
    """A short text, made printable."""
    if name not in members:
        return ""
    text = members.read(name)[:4096].decode("utf-8", "replace").strip()
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)
