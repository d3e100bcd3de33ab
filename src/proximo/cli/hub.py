"""``proximo hub``: trained agents to and from the Hugging Face hub."""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from proximo.cli.command import check_at_least, flag, parse
from proximo.cli.flags import Count, OptionalPath, OptionalText, default_is
from proximo.errors import near_matches

if TYPE_CHECKING:
    from proximo.cli.runs import Run

SUMMARY_OF_PUSH = """Upload the trained agent of a run as a repository of the Hugging Face hub: model, configuration,
an evaluation with its interval, a film, and a model card whose metadata leaderboards read. --dry-run writes all of it
into a folder and uploads nothing. Who you are, the hub's own client knows: `hf auth login`, or HF_TOKEN."""
EXAMPLES_OF_PUSH = (
    "proximo hub push runs/CartPole-v1-ppo-1-20260102-030405 ada/ppo-CartPole-v1 --dry-run card",
    "proximo hub push runs/CartPole-v1-ppo-1-20260102-030405 ada/ppo-CartPole-v1",
    "proximo hub push RUN ada/ppo-Hopper-v5 --model best.zip --episodes 200 --private",
)
SUMMARY_OF_PULL = """Download a trained agent into a run folder that `proximo evaluate` and `watch` take. Models of
Stable-Baselines3 and sb3-contrib are converted, their VecNormalize too. Nothing of the repository is run, only files
with known names are downloaded, and their sizes are checked before that."""
EXAMPLES_OF_PULL = (
    "proximo hub pull ada/ppo-CartPole-v1",
    "proximo hub pull sb3/ppo-CartPole-v1 -o cartpole",
    "proximo hub pull ada/collection --file ppo-Hopper.zip --env Hopper-v5",
)
USAGE = "expected `proximo hub push RUN USER/NAME` or `proximo hub pull USER/NAME`; each has --help"


@dataclass(frozen=True, kw_only=True)
class Push:
    """What to upload, and where to."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")] = flag(
        "Run folder, as made by proximo train."
    )
    repository: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="USER/NAME")] = flag(
        "Repository on the hub; it is made if there is none."
    )
    dry_run: Annotated[OptionalPath, default_is("upload")] = flag(
        "Write what would be uploaded into this new folder instead.", None
    )
    model: Annotated[OptionalPath, default_is("the run's model.zip")] = flag(
        "Another model file of the run, such as best.zip of a training with --eval-every.", None
    )
    episodes: Count = flag("Episodes of the evaluation, such as 200.", 100)
    seed: Count = flag("Seed of the evaluation's environments, such as 7.", 0)
    without_film: bool = flag("Make no film, for environments that cannot be drawn.", False)
    private: bool = flag("Let only you see a repository that is made.", False)


@dataclass(frozen=True, kw_only=True)
class Pull:
    """What to download, and where to."""

    repository: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="USER/NAME")] = flag(
        "Repository on the hub."
    )
    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"], metavar="FOLDER"), default_is("NAME")] = flag(
        "Folder to make.", None
    )
    file: Annotated[OptionalText, default_is("the only one")] = flag(
        "Which of several models, such as ppo-Hopper.zip.", None
    )
    env: Annotated[OptionalText, default_is("what the repository says")] = flag(
        "What the model plays, such as CartPole-v1.", None
    )
    revision: Annotated[OptionalText, default_is("the newest")] = flag("Branch, tag or commit.", None)
    max_gigabytes: float = flag("The largest model that is downloaded.", 1.0)


def run(words: Sequence[str]) -> int:
    name = words[0] if words else "--help"
    if name in ("-h", "--help"):
        show_help()
        return 0
    if name not in ("push", "pull"):
        raise ValueError(f"there is no `proximo hub {name}`; {USAGE}; {near_matches(name, ('push', 'pull'))}")
    return push(words[1:]) if name == "push" else pull(words[1:])


def show_help() -> None:
    from proximo.cli.console import output

    console = output()
    console.print("usage: proximo hub push RUN USER/NAME …   or   proximo hub pull USER/NAME …", markup=False)
    for name, summary, examples in (
        ("push", SUMMARY_OF_PUSH, EXAMPLES_OF_PUSH),
        ("pull", SUMMARY_OF_PULL, EXAMPLES_OF_PULL),
    ):
        shown = "\n".join(f"  {example}" for example in examples)
        console.print(f"\n[bold]{name}[/]")
        console.print(f"{summary}\n{shown}", markup=False)
    console.print("\nproximo hub push --help and proximo hub pull --help tell their options.", markup=False)


def push(words: Sequence[str]) -> int:
    arguments = parse(Push, "hub push", SUMMARY_OF_PUSH, EXAMPLES_OF_PUSH, words)
    check_at_least("--episodes", arguments.episodes, 1)
    check_at_least("--seed", arguments.seed, 0)
    from proximo.cli.console import output, shown_path
    from proximo.cli.runs import Run
    from proximo.hub import push as upload
    from proximo.hub.client import check_repository, require_hub

    require_hub()
    check_repository(arguments.repository)
    if arguments.dry_run is not None and arguments.dry_run.exists():
        raise FileExistsError(f"{arguments.dry_run} exists; choose another folder for --dry-run")
    run = Run.open(arguments.run)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "repository"
        place.mkdir()
        fill(place, run, arguments)
        if arguments.dry_run is None:
            title = f"{run.config.algo} on {run.config.env}"
            address = upload(place, arguments.repository, message=f"Add {title}", private=arguments.private)
            output().print(f"{address}", markup=False, soft_wrap=True)
        else:
            arguments.dry_run.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(place, arguments.dry_run)
            output().print(f"{shown_path(arguments.dry_run)}: nothing is uploaded", markup=False, soft_wrap=True)
        for path in sorted(place.iterdir()):
            output().print(f"  {path.name}  {path.stat().st_size:,} bytes", markup=False)
    return 0


def fill(place: Path, run: Run, arguments: Push) -> None:
    """Write all files of a repository: model, configuration, versions, evaluation, film, card."""
    from proximo.cli.algorithms import algorithm_title
    from proximo.cli.console import print_table, quiet_libraries
    from proximo.cli.playing import FILM_SECONDS, evaluate_run, evaluation_table, film_run, find_model
    from proximo.hub.card import Subject, check_no_secrets, model_card, public_config, results
    from proximo.training.run_folder import to_toml

    config, model = run.config, find_model(run, arguments.model)
    for file in (run.folder.config, run.folder.versions, model):
        if file.is_relative_to(run.folder.path):
            run.folder.brought(file)
    check_no_secrets(public_config(config.as_table()))
    film = None
    with quiet_libraries():
        evaluation = evaluate_run(run, arguments.episodes, seed=arguments.seed, model_file=model)
        if not arguments.without_film:
            suffix = "gif" if importlib.util.find_spec("imageio_ffmpeg") is None else "mp4"
            path = place / f"replay.{suffix}"
            film = film_run(run, path, seconds=FILM_SECONDS, seed=arguments.seed, model_file=model).name
    print_table(evaluation_table(evaluation, title=f"{algorithm_title(config.algo)} on {config.env}"))
    table = public_config(config.as_table())
    subject = Subject(
        repository=arguments.repository,
        env=config.env,
        algo=config.algo,
        title=algorithm_title(config.algo),
        config=to_toml(table),
        evaluation=evaluation,
        seed=arguments.seed,
        steps=steps_of(model),
        film=film,
    )
    shutil.copyfile(model, place / "model.zip")
    versions = read_versions(run)
    texts = {
        "config.toml": subject.config,
        "versions.json": json.dumps({name: versions[name] for name in ("python", "packages")}, indent=2) + "\n",
        "results.json": json.dumps(results(subject), indent=2) + "\n",
        "README.md": model_card(subject),
    }
    for name, text in texts.items():
        (place / name).write_text(text, encoding="utf-8")


def read_versions(run: Run) -> dict[str, Any]:
    """What the run was trained with; of a folder without that, what there is now."""
    from proximo.reports import results
    from proximo.training.run_folder import collect_versions

    found = results.read_versions(run.folder.versions)
    return found if {"python", "packages"} <= found.keys() else collect_versions()


def steps_of(model: Path) -> int:
    """How long a model was trained, as its file says."""
    from proximo.cli.algorithms import algorithm_class, algorithm_of_file

    return algorithm_class(algorithm_of_file(model)[0]).load(model, device="cpu").num_timesteps


def pull(words: Sequence[str]) -> int:
    arguments = parse(Pull, "hub pull", SUMMARY_OF_PULL, EXAMPLES_OF_PULL, words)
    if not arguments.max_gigabytes > 0:
        raise ValueError(f"--max-gigabytes is {arguments.max_gigabytes}; expected a number above 0")
    from proximo.cli.console import output, quiet_libraries, shown_path
    from proximo.hub import pull as download

    with quiet_libraries():
        folder = download(
            arguments.repository,
            arguments.output,
            file=arguments.file,
            env=arguments.env,
            revision=arguments.revision,
            max_bytes=int(arguments.max_gigabytes * 1e9),
        )
    path = shown_path(folder)
    output().print(f"{path}: {', '.join(sorted(entry.name for entry in folder.iterdir()))}", markup=False)
    if (folder / "config.toml").exists():
        output().print(f"play it with: proximo evaluate {path}", markup=False, soft_wrap=True)
    return 0
