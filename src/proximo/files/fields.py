"""The named values of a model in a file: what has a safe form is written, what has none is named and asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from proximo.errors import ModelFileError
from proximo.files.budgets import Budgets
from proximo.files.encoding import MAX_DEPTH, Decoder, Encoder, Unsafe, is_plain_dict
from proximo.files.plain_text import Json


def encode_fields(fields: Mapping[str, Any]) -> tuple[dict[str, Json], dict[str, str]]:
    """Encode what has a safe form; describe what the loading program must supply, by dotted name.

    >>> encode_fields({"n_steps": 128, "policy_kwargs": {"net_arch": [64], "features_extractor_class": Unsafe}})
    ({'n_steps': 128, 'policy_kwargs': {'net_arch': [64]}}, {'policy_kwargs.features_extractor_class': 'class Unsafe'})
    """
    encoder = Encoder()
    encoded: dict[str, Json] = {}
    needs: dict[str, str] = {}
    for name, value in fields.items():
        _encode_field(encoder, name, value, encoded, needs, path=name, depth=0)
    return encoded, needs


def _encode_field(
    encoder: Encoder, key: str, value: Any, into: dict[str, Json], needs: dict[str, str], path: str, depth: int
) -> None:
    """Put the encoding of a value into ``into[key]``, or describe under ``path`` what has none.

    Within plain dictionaries only the unsafe parts are left out, so that the caller need not repeat the rest.
    """
    if depth < MAX_DEPTH and type(value) in (dict, OrderedDict) and _has_dotted_names(value):
        parts: dict[str, Json] = {}
        for part, item in value.items():
            _encode_field(encoder, part, item, parts, needs, f"{path}.{part}", depth + 1)
        into[key] = parts
        return
    try:
        into[key] = encoder.encode(value, depth + 1)
    except Unsafe as unsafe:
        needs[path] = str(unsafe)


def _has_dotted_names(value: dict[Any, Any]) -> bool:
    """Whether the entries of a dictionary can be named ``path.key`` without doubt."""
    return is_plain_dict(value) and not any("." in key for key in value)


def decode_fields(
    encoded: Mapping[str, Json],
    needs: Mapping[str, str],
    custom_objects: Mapping[str, Any] | None = None,
    loader: str = "PPO.load",
    budgets: Budgets | None = None,
) -> dict[str, Any]:
    """The fields of :func:`encode_fields`, with what could not be written taken from ``custom_objects``.

    A key there is the name of a field, which it replaces as a whole (also one that was written, which is then not
    decoded at all), or a dotted name for one entry of a dictionary. Keys that the file does not know are ignored, as
    Stable-Baselines3 does. If something is still missing, one error lists it all and shows the call.
    """
    supplied = _checked_custom_objects(custom_objects)
    _check_needs(encoded, needs)
    _check_supplied(needs, supplied, loader)
    decoder = Decoder(budgets=budgets)
    fields = {name: decoder.decode(value) for name, value in encoded.items() if name not in supplied}
    return supply_fields({name: fields.get(name) for name in encoded}, needs, supplied, loader)


def supply_fields(
    fields: Mapping[str, Any], needs: Mapping[str, str], custom_objects: Mapping[str, Any] | None, loader: str
) -> dict[str, Any]:
    """Fields with what the caller supplies in their place, as :func:`decode_fields` says."""
    supplied = _checked_custom_objects(custom_objects)
    _check_supplied(needs, supplied, loader)
    names = [*fields, *(path for path in needs if "." not in path)]
    complete = {name: supplied[name] if name in supplied else fields[name] for name in names}
    for path, value in supplied.items():
        name, *parts = path.split(".")
        if parts and name in complete and name not in supplied:
            _put(complete[name], parts, value, path)
    return complete


def _check_supplied(needs: Mapping[str, str], supplied: Mapping[str, Any], loader: str) -> None:
    missing = {
        path: what for path, what in needs.items() if path not in supplied and path.split(".")[0] not in supplied
    }
    if missing:
        raise ModelFileError(_missing_message(missing, loader))


def _checked_custom_objects(custom_objects: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if custom_objects is None:
        return {}
    if not isinstance(custom_objects, Mapping) or not all(isinstance(key, str) for key in custom_objects):
        raise TypeError(
            "custom_objects maps names to values, such as {'learning_rate': 3e-4}; "
            f"got {type(custom_objects).__name__}"
        )
    return custom_objects


def _check_needs(encoded: Mapping[str, Json], needs: Mapping[str, str]) -> None:
    if not isinstance(encoded, Mapping) or not isinstance(needs, Mapping):
        raise ModelFileError("the file's tables of values are malformed; it was changed or is damaged")
    if not all(isinstance(text, str) for pair in needs.items() for text in pair):
        raise ModelFileError("the file's list of values to supply is malformed; it was changed or is damaged")


def _missing_message(missing: Mapping[str, str], loader: str) -> str:
    """Texts of the file are shown escaped and cut, as they may be anything."""
    listed = "; ".join(f"{ascii(path)[1:-1]:.80} ({ascii(what)[1:-1]:.80})" for path, what in missing.items())
    example = ", ".join(f'"{ascii(path)[1:-1]:.80}": ...' for path in missing)
    return (
        f"the model was saved with values that a file cannot hold safely: {listed:.2000}; "
        f"supply them from your code: {loader}(path, custom_objects={{{example:.2000}}})"
    )


def _put(field: Any, parts: list[str], value: Any, path: str) -> None:
    """Set one entry of nested dictionaries."""
    for part in parts[:-1]:
        field = field.get(part) if isinstance(field, dict) else None
    if not isinstance(field, dict):
        raise ModelFileError(f"{path!a} names an entry of a dictionary, and the file holds no dictionary there")
    field[parts[-1]] = value
