"""Which files of a repository are taken. Names and sizes come from a stranger; a name is only ever compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from proximo.files.budgets import MIB
from proximo.files.plain_text import TOML_BYTES, shown
from proximo.hub.client import HubError

MAX_FILES = 10_000
MAX_MODEL_BYTES = 1024 * MIB
MODEL, CONFIG = "model.zip", "config.toml"
NORMALIZERS = ("vec_normalize.pkl", "vecnormalize.pkl")
OTHERS = {"README.md": MIB, "results.json": MIB, "versions.json": MIB, "replay.mp4": 64 * MIB, "replay.gif": 64 * MIB}
"""What is taken if it is there and no longer than this, and is only ever shown."""
_ARCHIVE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}\.zip")
_NO_MODELS = ("train_eval_metrics.zip",)  # RL Baselines3 Zoo's learning curves


@dataclass(frozen=True)
class Choice:
    """The names of the files to take: the model and what belongs to it."""

    model: str
    is_own: bool  # a repository of ``proximo hub push``, as far as the names tell
    normalizer: str | None
    others: tuple[str, ...]
    left_out: tuple[str, ...]  # too long

    def names(self) -> list[str]:
        config = [CONFIG] if self.is_own else []
        return [self.model, *config, *([self.normalizer] if self.normalizer else []), *self.others]


def read_listing(entries: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Sizes by name; of folders nothing is taken, so only names without a slash matter."""
    files: dict[str, int] = {}
    for name, size in islice(entries, MAX_FILES + 1):
        if len(files) >= MAX_FILES:
            raise HubError(f"the repository has more than {MAX_FILES:,} files")
        if type(size) is not int or size < 0:
            raise HubError(f"the repository lists {shown([str(name)])} without its size")
        files[str(name)] = size
    return files


def choose(files: Mapping[str, int], wanted: str | None = None, max_bytes: int = MAX_MODEL_BYTES) -> Choice:
    """The model that a repository holds, and what belongs to it; sizes are checked before anything is downloaded."""
    own = CONFIG in files and MODEL in files and wanted in (None, MODEL)
    model = MODEL if own else _archive(files, wanted)
    normalizer = None if own else next((name for name in NORMALIZERS if name in files), None)
    limits = {model: max_bytes, CONFIG: TOML_BYTES, **dict.fromkeys(NORMALIZERS, 256 * MIB)}
    for name in (model, *([CONFIG] if own else []), *([normalizer] if normalizer else [])):
        if files[name] > limits[name]:
            raise HubError(
                f"{name} has {files[name]:,} bytes, and at most {limits[name]:,} are taken; models may have more with "
                "--max-gigabytes"
            )
    there = [name for name in OTHERS if name in files]
    return Choice(
        model,
        own,
        normalizer,
        tuple(name for name in there if files[name] <= OTHERS[name]),
        tuple(name for name in there if files[name] > OTHERS[name]),
    )


def _archive(files: Mapping[str, int], wanted: str | None) -> str:
    archives = [name for name in files if _ARCHIVE.fullmatch(name) and name not in _NO_MODELS]
    if wanted is not None:
        if wanted not in archives:
            raise HubError(f"the repository has no model {wanted!r}; it has {shown(archives) or 'none'}")
        return wanted
    if not archives:
        raise HubError(f"the repository holds no model: no zip among its files ({shown(files) or 'none'})")
    if len(archives) > 1:
        raise HubError(f"the repository holds several models: say which with --file: {shown(archives)}")
    return archives[0]
