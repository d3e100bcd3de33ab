"""``proximo tune``: search for better hyperparameters, from a preset to a preset."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from proximo import ALGORITHMS
from proximo.cli.command import check_at_least, flag, parse
from proximo.cli.flags import OptionalCount, OptionalPath, OptionalText, default_is, one_word, workers_of
from proximo.cli.workers import with_value
from proximo.errors import near_matches

if TYPE_CHECKING:
    from proximo.cli.train import Train
    from proximo.tuning import Space, Study
    from proximo.tuning.study import Settings
    from proximo.zoo import Preset

SUMMARY = """Search for hyperparameters of ENV that learn better than its preset, which is the first trial.

A trial is trained with every seed, first for a part of the steps; the better third goes on from its checkpoints to the
next rung, so that no step is trained twice. The best three trials and the start are then trained on fresh seeds, and
the best of them is written to best.toml, which `proximo train --preset` takes. Values are drawn by Optuna (extra
"tune"). Everything is in the study's folder: the same command with --study goes on with it after Ctrl-C or a crash, and
several processes or machines that see the folder share the work."""
EXAMPLES = (
    "proximo tune Pendulum-v1 --trials 50 --seeds 3 --jobs 2",
    "proximo tune HalfCheetah-v5 --algo a2c --steps 3e5 --space my.toml --study studies/cheetah",
    "proximo tune --study studies/cheetah",
    "proximo tune HalfCheetah-v5 --print-space > my.toml",
    "proximo tune --study studies/cheetah --trials 100 --jobs 4",
    "proximo train --preset studies/cheetah/best.toml --seeds 1-5",
    "optuna-dashboard studies/cheetah/journal.log",
)
FRESH_SEED = 1001
"""The first seed of the confirmation; those of the search begin with 1."""


@dataclass(frozen=True, kw_only=True)
class Tune:
    """What to tune, and how thoroughly."""

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV"), default_is("that of the study")] = flag(
        "Id of the environment, such as Pendulum-v1.", ""
    )
    study: Annotated[OptionalPath, default_is("a new folder in --runs-dir")] = flag(
        "Folder of the study: made if there is none, gone on with and shared if there is.", None
    )
    algo: Annotated[OptionalText, tyro.conf.arg(metavar="{" + ",".join(ALGORITHMS) + "}"), default_is("ppo")] = flag(
        "The algorithm.", None
    )
    preset: Annotated[OptionalText, tyro.conf.arg(metavar="{auto,none}|NAME|FILE"), default_is("auto")] = flag(
        "Where the search starts: as --preset of `proximo train`.", None
    )
    space: Annotated[OptionalPath, default_is("the algorithm's own")] = flag(
        "A TOML file of what is searched, such as my.toml.", None
    )
    print_space: bool = flag(
        "Show what is searched as TOML and tune nothing: --print-space > my.toml is a start for a space of yours.",
        False,
    )
    trials: Annotated[OptionalCount, default_is("50")] = flag(
        "How many configurations are tried, the start among them; a study that is gone on with may get more.", None
    )
    seeds: Annotated[OptionalCount, default_is("3")] = flag("Seeds that each is trained with, such as 3.", None)
    jobs: Annotated[OptionalCount, default_is("one per core")] = flag("Trainings at a time, such as 2.", None)
    steps: Annotated[OptionalCount, default_is("the preset's")] = flag("Steps of a whole training, such as 1e5.", None)
    envs: Annotated[OptionalCount, default_is("the preset's")] = flag(
        "Parallel environments of each training, such as 8.", None
    )
    rungs: Annotated[OptionalCount, default_is("3")] = flag(
        "How often trials are compared before one is trained to the end; 1 trains all to the end.", None
    )
    reduction: Annotated[OptionalCount, default_is("3")] = flag(
        "One of so many goes on to the next rung, which has so many times the steps.", None
    )
    pruner: Annotated[
        Literal["median", "wilcoxon", "none"] | None,
        tyro.conf.arg(metavar="{median,wilcoxon,none}"),
        default_is("median"),
    ] = flag(
        "What ends a trial between its seeds: a mean below the median of the others over the same seeds, or "
        "Wilcoxon's signed-rank test against the best one, which needs four pairs of seed and rung.",
        None,
    )
    eval_episodes: Annotated[OptionalCount, default_is("20")] = flag("Episodes of an evaluation, such as 10.", None)
    fresh_seeds: Annotated[OptionalCount, default_is("5")] = flag(
        "Seeds, which no trial has seen, for the confirmation of the best three; 0 leaves it out.", None
    )
    search_seed: Annotated[OptionalCount, default_is("0")] = flag(
        "Seed of the search itself: with one job at a time a search can be repeated.", None
    )
    workers: Annotated[
        int | str | None, one_word(workers_of, "{auto,cores}|INT"), default_is("as proximo train decides")
    ] = flag("Worker processes that step the environments of each training: as --workers of `proximo train`.", None)
    device: Annotated[OptionalText, default_is("auto")] = flag("Where policies learn, such as cpu.", None)
    runs_dir: Path = flag("Where new studies are made.", Path("runs"))


JOINING = ("study", "env", "algo", "trials", "jobs", "runs_dir")
"""What may be given with a study that is there; all else must be as it was started."""
START_FILES = ("preset", "space")
"""What names a file, or a preset, of which the study keeps the content."""


def run(words: Sequence[str]) -> int:
    arguments = parse_arguments(words)
    check_values(arguments)
    from proximo.cli.console import output
    from proximo.cli.tune_session import TuneSession
    from proximo.cores import usable_cores
    from proximo.tuning.study import Study, require_optuna

    require_optuna()
    if arguments.study is not None and Study.is_one(arguments.study):
        study = joined(arguments, arguments.study)
    else:
        settings, space = planned(arguments)
        if arguments.print_space:
            from proximo.training.run_folder import to_toml

            output().print(to_toml(space.as_table()), markup=False, end="")
            return 0
        study = Study.create(study_folder(arguments, settings), settings, space)
        if study.settings != settings:  # another process was first
            study = joined(arguments, study.path)
    return TuneSession(study, arguments.jobs or usable_cores()).finish()


def parse_arguments(words: Sequence[str]) -> Tune:
    return parse(Tune, "tune", SUMMARY, EXAMPLES, with_value(words))


def check_values(arguments: Tune) -> None:
    for name, least in (
        ("trials", 1), ("seeds", 1), ("jobs", 1), ("steps", 1), ("envs", 1), ("rungs", 1), ("reduction", 2),
        ("eval_episodes", 1), ("fresh_seeds", 0), ("search_seed", 0),
    ):  # fmt: skip
        value = getattr(arguments, name)
        if value is not None:
            check_at_least(f"--{name.replace('_', '-')}", value, least)
    if arguments.algo is not None and arguments.algo not in ALGORITHMS:
        raise ValueError(f"there is no algorithm {arguments.algo!r}; {near_matches(arguments.algo, ALGORITHMS)}")


def joined(arguments: Tune, path: Path) -> Study:
    """A study that is there; what is given besides must not be another study's."""
    from proximo.envs.make import versioned_id
    from proximo.tuning.study import Study, StudyError

    study = Study.open(path)
    for name, asked in (("env", versioned_id(arguments.env) if arguments.env else ""), ("algo", arguments.algo)):
        there = getattr(study.settings, name)
        if asked and asked != there:
            raise StudyError(f"the study {path} is of {there}, not of {asked}; give another --study")
    check_same(arguments, study)
    if arguments.trials is not None:
        study.extend(arguments.trials)
    return study


def check_same(arguments: Tune, study: Study) -> None:
    """Refuse flags that would make it another study; the command that began it, typed again, goes on with it."""
    from proximo.tuning.study import StudyError

    given = [item.name for item in fields(arguments) if getattr(arguments, item.name) != item.default]
    there = values_of(study)
    for name in (name for name in given if name not in (*JOINING, *START_FILES)):
        asked, flag = getattr(arguments, name), f"--{name.replace('_', '-')}"
        if asked != there.get(name):
            has = f"has {flag} {there[name]}, not {asked}" if name in there else f"takes no {flag}"
            raise StudyError(f"the study {study.path} {has}; leave it out, or give another --study")
    if files := [name for name in START_FILES if name in given]:
        kept = {name: there[name] for name in ("rungs", "reduction")}
        if "preset" not in files:
            kept |= {name: there[name] for name in ("steps", "envs")}
        env, algo = arguments.env or study.settings.env, study.settings.algo
        _, space = planned(replace(arguments, **kept, env=env, algo=algo, print_space=False))
        same = {
            "preset": as_written(space.start.as_row()) == as_written(study.space.start.as_row()),
            "space": as_written(space.as_table()) == as_written(study.space.as_table()),
        }
        if others := [f"--{name}" for name in files if not same[name]]:
            raise StudyError(
                f"the study {study.path} began with other values than {', '.join(others)} has now; leave it out, or "
                "give another --study"
            )


def as_written(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table as it comes back from a file, which has no None."""
    from proximo.training.run_folder import to_toml

    return tomllib.loads(to_toml(table))


def values_of(study: Study) -> dict[str, Any]:
    """What the flags would have to be for this study, by name."""
    settings = study.settings
    return {
        "seeds": len(settings.seeds),
        "steps": settings.rungs[-1],
        "envs": study.space.start.n_envs,
        "rungs": len(settings.rungs),
        "reduction": settings.reduction,
        "pruner": settings.pruner,
        "eval_episodes": settings.eval_episodes,
        "fresh_seeds": len(settings.fresh_seeds),
        "search_seed": settings.seed,
        "workers": settings.workers,
        "device": settings.device,
    }


def study_folder(arguments: Tune, settings: Settings) -> Path:
    from proximo.training.run_folder import make_dated_folder

    if arguments.study is not None:
        return arguments.study
    return make_dated_folder(arguments.runs_dir, f"tune-{settings.env}-{settings.algo}")


def planned(arguments: Tune) -> tuple[Settings, Space]:
    """A new study; whatever can be refused is refused before there is a folder."""
    from proximo.cli.algorithms import check_policy_arguments, default_arguments, fitting_policy
    from proximo.cli.console import quiet_libraries
    from proximo.cli.session import prepared
    from proximo.cli.train import parse_arguments, run_config
    from proximo.tuning import Space
    from proximo.tuning.study import rungs_of

    words = train_words(arguments)
    training: Train = parse_arguments(words)
    config = run_config(training)
    with quiet_libraries(), prepared(training, config) as (env, model):
        policy = config.preset.policy or fitting_policy(config.algo, env)
        start: Preset = config.completed(default_arguments(type(model)), policy).preset
    rungs = rungs_of(start.n_timesteps, arguments.rungs or 3, arguments.reduction or 3)
    settings = settings_of(arguments, config.env, config.algo, rungs)
    space = Space.read(config.algo, start, arguments.space, rungs[0])
    of_policy = [name.partition(".")[2] for name in space.ranges if "." in name]
    check_policy_arguments(type(model), policy, dict.fromkeys(of_policy))
    return settings, space


def train_words(arguments: Tune) -> list[str]:
    """The words of `proximo train` that train the start."""
    if not arguments.env and (arguments.preset is None or not Path(arguments.preset).is_file()):
        if arguments.study is not None:
            raise ValueError(
                f"there is no study at {arguments.study}; give the folder of one, or the id of an environment too to "
                "begin one there"
            )
        raise ValueError(
            "give the id of an environment (proximo tune Pendulum-v1), or a study to go on with (--study FOLDER)"
        )
    words = [arguments.env] if arguments.env else []
    for name in ("algo", "preset", "steps", "envs"):
        if (value := getattr(arguments, name)) is not None:
            words += [f"--{name}", str(value)]
    return [*words, *session_words(arguments)]


def session_words(source: Tune | Settings) -> list[str]:
    """The words of `proximo train` that say where and how it runs."""
    words: list[str] = []
    for name in ("workers", "device"):
        if (value := getattr(source, name)) is not None:
            words += [f"--{name}", str(value)]
    return words


def settings_of(arguments: Tune, env: str, algo: str, rungs: tuple[int, ...]) -> Settings:
    from proximo.tuning.study import Settings

    fresh = 5 if arguments.fresh_seeds is None else arguments.fresh_seeds
    given: dict[str, Any] = {
        "trials": arguments.trials,
        "seeds": None if arguments.seeds is None else tuple(range(1, arguments.seeds + 1)),
        "reduction": arguments.reduction,
        "pruner": arguments.pruner,
        "eval_episodes": arguments.eval_episodes,
        "seed": arguments.search_seed,
    }
    return Settings(
        env=env,
        algo=algo,
        rungs=rungs,
        fresh_seeds=tuple(range(FRESH_SEED, FRESH_SEED + fresh)),
        workers=arguments.workers,
        device=arguments.device,
        **{name: value for name, value in given.items() if value is not None},
    )
