"""From a repository to a run folder, without running anything of it."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import proximo
from proximo import ALGORITHMS
from proximo.errors import ModelFileError
from proximo.files.normalizer_file import read_normalizer
from proximo.files.plain_text import brief, read_toml, shown
from proximo.files.sb3_archive import read_sb3_archive
from proximo.hub.card import public_config
from proximo.hub.client import HubError, check_repository, hub_client, saying_what_failed
from proximo.hub.listing import CONFIG, MAX_MODEL_BYTES, MODEL, Choice, choose, read_listing
from proximo.persistence.inspection import inspect_file
from proximo.persistence.model_files import field_names
from proximo.persistence.sb3_files import algorithm_of, check_on_policy, is_foreign
from proximo.training.run_folder import to_toml
from proximo.zoo.presets import Preset, preset_by_name

_NAMED = re.compile(r"[a-z0-9_]+-([A-Z][A-Za-z0-9_.-]*-v\d+)\.zip")  # ppo-CartPole-v1.zip, as RL Baselines3 Zoo has it
STAND_INS = {"learning_rate": 3e-4, "clip_range": 0.2}
"""In the place of schedules that are code in a file; only a training would need them."""


def pull(
    repository: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    file: str | None = None,
    env: str | None = None,
    revision: str | None = None,
    max_bytes: int = MAX_MODEL_BYTES,
) -> Path:
    """Download the model of ``USER/NAME`` into a new folder, by default NAME; returns it.

    The folder is a run's: ``proximo evaluate`` and ``watch`` take it. A model of Stable-Baselines3 is converted, with
    its ``vec_normalize.pkl``; ``file`` says which of several, ``env`` what it plays if its name does not say so. Where
    the environment is unknown, or would import a package of its own choice, the folder holds the model alone.

    Only files with known names are downloaded, at most ``max_bytes`` of a model, and none of them is run.
    """
    check_repository(repository)
    target = Path(folder) if folder is not None else Path(repository.partition("/")[2])
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise FileExistsError(f"{target} exists; choose another folder with -o, or remove it")
    client = hub_client()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".proximo-pull-", dir=target.parent) as place:
        downloads, made = Path(place) / "downloads", Path(place) / "made"
        with saying_what_failed(repository, "pulling"):
            commit = client.model_info(repository, revision=revision).sha  # all files of one state
            tree = client.list_repo_tree(repository, recursive=False, revision=commit)
            files = read_listing((entry.path, entry.size) for entry in tree if hasattr(entry, "size"))
            choice = choose(files, file, max_bytes)
            for name in choice.names():
                client.hf_hub_download(repository, name, revision=commit, local_dir=downloads)
        for name in choice.names():
            _check_download(downloads / name, files[name])
        if choice.left_out:
            warnings.warn(f"left out, because too long: {', '.join(choice.left_out)}", stacklevel=2)
        made.mkdir()
        _fill(made, downloads, choice, env)
        if target.exists():
            target.rmdir()
        made.rename(target)
    return target


def _check_download(path: Path, size: int) -> None:
    if path.is_symlink() or not path.is_file() or path.stat().st_size != size:
        raise HubError(f"the download of {path.name} is not the file that the repository lists; pull again")


def _fill(made: Path, downloads: Path, choice: Choice, env: str | None) -> None:
    """Put a run folder together from downloaded files, each read as data first."""
    model = downloads / choice.model
    if is_foreign(model):
        config = _convert(model, made / MODEL, choice, downloads, env)
    else:
        inspect_file(model)  # refuses what is no model
        model.rename(made / MODEL)
        config = _own_config(downloads / CONFIG, env) if choice.is_own else None
    if config is not None:
        (made / CONFIG).write_text(to_toml(config), encoding="utf-8")
    for name in choice.others:
        (downloads / name).rename(made / name)


def _own_config(path: Path, env: str | None) -> dict[str, Any] | None:
    """The configuration of a repository of ours; None if it names a package to import, which a stranger may not."""
    table = public_config(read_toml(path, CONFIG))
    named = table.get("env")
    if not isinstance(named, str) or table.get("algo") not in list(ALGORITHMS):
        raise HubError(f"its {CONFIG} says env {brief(named)} and algo {brief(table.get('algo'))}; expected a run's")
    try:
        preset = Preset.from_row(CONFIG, table)  # refuses wrappers that are none of the list
    except ValueError as error:
        raise HubError(str(error)) from error
    if ":" in named and env is None:
        _warn_of_unknown(f"{CONFIG} names {brief(named)}, which would import a package")
        return None
    _warn_of_arguments(preset.env_kwargs, env or named)
    return {**table, "env": env or named}


def _convert(source: Path, target: Path, choice: Choice, downloads: Path, env: str | None) -> dict[str, Any] | None:
    """A model of Stable-Baselines3 as one of the library; returns its run's configuration, if it can be told."""
    archive = read_sb3_archive(source, weights=False)
    title = algorithm_of(archive)
    check_on_policy(title, source)
    algo = next((name for name, known in ALGORITHMS.items() if known == title), None)
    if algo is None:
        raise ModelFileError(f"{choice.model} holds a model of {brief(title)}; known are {', '.join(ALGORITHMS)}")
    agent = getattr(proximo, title)
    with suppress(ModelFileError):  # loading will say it
        archive.fields(field_names(agent))  # finds out what is code
    replaced = {name: number for name, number in STAND_INS.items() if name in archive.needs}
    if replaced:
        listed = ", ".join(f"{name} ({number:g} stands in its place)" for name, number in replaced.items())
        warnings.warn(f"{choice.model} holds code, which is not run, as {listed}", stacklevel=2)
    model = agent.load(source, device="cpu", custom_objects=replaced)
    normalize: dict[str, Any] = {}
    if choice.normalizer is not None:
        normalize, model._loaded_statistics = read_normalizer(downloads / choice.normalizer)
    model.save(target)
    named = _NAMED.fullmatch(choice.model)
    env = env or (named[1] if named else None)
    if env is None:
        _warn_of_unknown(f"the name {choice.model} says no environment")
        return None
    preset = preset_by_name("auto", algo, env)
    # of the preset the environments; the hyperparameters are those of the file
    row = replace(preset, arguments={}, normalize=normalize or False).as_row()
    return {"env": env, "algo": algo, "seed": 0, "preset": preset.name, **row}


def _warn_of_arguments(env_kwargs: Mapping[str, Any], env: str) -> None:
    """A text may name a file to read, or, to the environments of some packages, a class to import."""
    if texts := [name for name, value in env_kwargs.items() if not isinstance(value, int | float)]:
        warnings.warn(
            f"{CONFIG} gives the environment {brief(env)} more than numbers: {shown(texts)}; what it does with them is "
            f"up to its package, so read env_kwargs in {CONFIG} before you play it",
            stacklevel=2,
        )


def _warn_of_unknown(reason: str) -> None:
    warnings.warn(
        f"{reason}: the folder holds the model alone; play it with `proximo evaluate FOLDER/{MODEL} --env ID`, or pull "
        "it again with --env ID",
        stacklevel=2,
    )
