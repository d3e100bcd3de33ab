"""``proximo evaluate``: how good is a trained agent?"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from proximo.cli.algorithms import algorithm_title
from proximo.cli.command import check_at_least, flag, parse
from proximo.cli.flags import Count, OptionalPath, OptionalText, RunFolders, default_is

if TYPE_CHECKING:
    from proximo.cli.runs import Run

SUMMARY = """Play episodes with the trained agents of run folders and report the mean return with its 95 % interval.
Several runs, or a group of --seeds, are one row each; where they differ only in their seed, a last row is the mean over
the seeds. With --env, model files without a run folder."""
EXAMPLES = (
    "proximo evaluate runs/CartPole-v1-ppo-1-20260102-030405",
    "proximo evaluate RUN --episodes 1000 --stochastic --seed 7",
    "proximo evaluate runs/CartPole-v1-*",
    "proximo evaluate RUN --model best.zip",
    "proximo evaluate model.zip --env CartPole-v1",
)


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Which agents to evaluate, and how."""

    runs: RunFolders = flag("Run folders or groups of them, as made by proximo train; with --env, model files.")
    env: Annotated[OptionalText, default_is("the run's")] = flag(
        "What model files without a run folder play, such as CartPole-v1; wrappers are those of its preset.", None
    )
    preset: Annotated[OptionalText, default_is("the environment's")] = flag(
        "Another preset whose wrappers to use with --env, such as AntBulletEnv-v0:gaussian.", None
    )
    episodes: Count = flag("Episodes to play with each agent, such as 1000.", 100)
    seed: Count = flag("Seed of the environments, such as 7.", 0)
    stochastic: bool = flag("Draw actions from the policy; otherwise the most likely action is taken.", False)
    model: Annotated[OptionalPath, default_is("the run's model.zip")] = flag(
        "Another model file of the run, such as best.zip of a training with --eval-every, or checkpoints/best.zip.",
        None,
    )
    device: str = flag("Where the policy runs: auto, cpu, cuda, …", "auto")


def run(words: Sequence[str]) -> int:
    arguments = parse(Evaluate, "evaluate", SUMMARY, EXAMPLES, words)
    check_at_least("--episodes", arguments.episodes, 1)
    check_at_least("--seed", arguments.seed, 0)
    from proximo.cli.console import print_table, quiet_libraries
    from proximo.cli.playing import comparison_table, evaluate_run, evaluation_table, find_model
    from proximo.cli.runs import Run
    from proximo.cli.session import check_device

    check_device(arguments.device)
    runs = Run.open_all(arguments.runs, arguments.env, arguments.preset)
    for run in runs:
        find_model(run, arguments.model)  # before the first of them is evaluated
        if run.model_file is None and arguments.model is None:
            warn_about_unfinished(run)
    with quiet_libraries():
        evaluations = [
            evaluate_run(
                run,
                arguments.episodes,
                seed=arguments.seed,
                deterministic=not arguments.stochastic,
                model_file=arguments.model,
                device=arguments.device,
            )
            for run in runs
        ]
    if len(runs) > 1:
        print_table(comparison_table(runs, evaluations))
    else:
        config = runs[0].config
        print_table(evaluation_table(evaluations[0], title=f"{algorithm_title(config.algo)} on {config.env}"))
    return 0


def warn_about_unfinished(run: Run) -> None:
    """A seed of a group that failed has a model too, which a mean over the seeds takes for a trained one."""
    from proximo.reports.results import UNREADABLE, read_run

    try:
        result = read_run(run.folder)
    except UNREADABLE as error:  # which keeps nobody from playing the model
        warnings.warn(f"it is not known whether {run.name} was trained to its end: {error}", stacklevel=2)
        return
    planned = result.planned_steps
    if result.journal and planned is not None and result.steps < planned:
        warnings.warn(
            f"{run.name} is at {result.steps:,} of {planned:,} steps ({result.status}); its model is evaluated as it "
            "is: leave it out, or train it to its end",
            stacklevel=2,
        )
