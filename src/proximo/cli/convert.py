"""``proximo convert``: model files between Stable-Baselines3 and Proximo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from proximo import ALGORITHMS
from proximo.cli.command import flag, parse
from proximo.cli.flags import OptionalNumber, default_is
from proximo.errors import ModelFileError

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm

SUMMARY = """Turn a model file of Stable-Baselines3 or sb3-contrib into one of Proximo, or the other way round: which,
the file itself says. Weights, hyperparameters, the optimiser's state and the number of steps are kept. Files of
VecNormalize are converted too. Nothing in a file is run."""
EXAMPLES = (
    "proximo convert model_from_sb3.zip model.zip",
    "proximo convert model.zip model_for_sb3.zip",
    "proximo convert old_sb3.zip model.zip --learning-rate 3e-4   (saved with a function as learning rate)",
    "proximo convert vecnormalize.pkl vecnormalize.safetensors",
)
REPLACEABLE = {"learning_rate": "--learning-rate 3e-4", "clip_range": "--clip-range 0.2"}
"""What may be code in a file and has a flag, with an example of it."""

_from_file = default_is("the file's")


@dataclass(frozen=True, kw_only=True)
class Convert:
    """What to convert, and where to."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")] = flag("File to read.")
    out: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="OUT")] = flag("File to write.")
    learning_rate: Annotated[OptionalNumber, _from_file] = flag(
        "In the place of the learning rate in the file, which may be code.", None
    )
    clip_range: Annotated[OptionalNumber, _from_file] = flag(
        "In the place of the clip range in the file, which may be code.", None
    )
    overwrite: bool = flag("Replace OUT if it exists.", False)


def run(words: Sequence[str]) -> int:
    arguments = parse(Convert, "convert", SUMMARY, EXAMPLES, words)
    if arguments.out.exists() and not arguments.overwrite:
        raise FileExistsError(f"{arguments.out} exists; choose another name, or add --overwrite")
    from proximo.cli.console import output, shown_path

    given = {name: getattr(arguments, name) for name in REPLACEABLE}
    message = convert(arguments.model, arguments.out, {name: x for name, x in given.items() if x is not None})
    output().print(f"{shown_path(arguments.out)}: {message}", markup=False)
    return 0


def convert(source: Path, target: Path, replaced: dict[str, Any]) -> str:
    """Convert a file; says what the new one is."""
    from proximo.files.archive import read_archive
    from proximo.files.normalizer_file import looks_like_normalizer
    from proximo.files.zips import existing_file
    from proximo.persistence.sb3_files import is_foreign, write_foreign

    source = existing_file(source)
    with source.open("rb") as stream:
        start = stream.read(16)
    if looks_like_normalizer(start):
        return _convert_normalizer(source, target)
    if is_foreign(source):
        return _convert_foreign(source, target, replaced)
    manifest, tensors = read_archive(source)
    agent = _agent(manifest.get("algorithm"), source)
    needs = manifest.get("needs")
    _check_replaced(needs if isinstance(needs, dict) else {}, replaced, source)
    loader = write_foreign(agent.load(source, device="cpu", custom_objects=replaced), target)
    note = " (a zip of Stable-Baselines3 holds no statistics of VecNormalize: convert those by themselves)"
    return f"a model of Stable-Baselines3; load it with {loader}.load{note if 'normalizer' in tensors else ''}"


def _convert_foreign(source: Path, target: Path, replaced: dict[str, Any]) -> str:
    from proximo.files.sb3_archive import read_sb3_archive
    from proximo.persistence.model_files import field_names
    from proximo.persistence.sb3_files import algorithm_of, check_on_policy

    archive = read_sb3_archive(source, weights=False)
    name = algorithm_of(archive)
    check_on_policy(name, source)
    agent = _agent(name, source)
    with suppress(ModelFileError):  # loading will say it, and which file it is
        archive.fields(field_names(agent))  # finds out what is code
    _check_replaced(archive.needs, replaced, source)
    agent.load(source, device="cpu", custom_objects=replaced).save(target)
    return f"a model of Proximo; load it with proximo.{name}.load"


def _check_replaced(needs: Mapping[str, str], replaced: Mapping[str, Any], source: Path) -> None:
    """Ask for the flags that take the place of code; where there is none for it, loading says what else to do."""
    missing = [name for name in needs if name not in replaced]
    if missing and all(name in REPLACEABLE for name in missing):
        listed = ", ".join(f"{name} ({ascii(needs[name])[1:-1]:.80})" for name in missing)
        flags = " ".join(REPLACEABLE[name] for name in missing)
        raise ModelFileError(f"{source} holds code, which is not run, as {listed}; give a number in its place: {flags}")


def _agent(name: Any, source: Path) -> type[OnPolicyAlgorithm]:
    import proximo
    from proximo.files.plain_text import brief

    if name not in ALGORITHMS.values():
        raise ModelFileError(f"{source} holds a model of {brief(name)}; known are {', '.join(ALGORITHMS.values())}")
    agent: type[OnPolicyAlgorithm] = getattr(proximo, name)
    return agent


def _convert_normalizer(source: Path, target: Path) -> str:
    from proximo.files.atomic import write_whole
    from proximo.files.normalizer_file import foreign_pickle, is_pickle, read_normalizer, write_normalizer

    content = read_normalizer(source)
    with source.open("rb") as stream:
        pickled = is_pickle(stream.read(2))
    if pickled:
        write_normalizer(target, content)
        return "statistics of VecNormalize; load them with proximo.VecNormalize.load"
    write_whole(target, foreign_pickle(content))
    return "statistics for Stable-Baselines3's VecNormalize.load"
