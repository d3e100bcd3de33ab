"""``proximo evaluate``: how good is a trained agent?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from proximo.cli.algorithms import algorithm_title
from proximo.cli.command import parse
from proximo.cli.flags import Count, OptionalPath, default_is

SUMMARY = """Play episodes with the trained agent of a run folder and report the mean return with its 95 % interval."""
EXAMPLES = (
    "proximo evaluate runs/CartPole-v1-ppo-1-20260102-030405",
    "proximo evaluate RUN --episodes 1000 --stochastic --seed 7",
    "proximo evaluate RUN --model checkpoints/model_50000_steps.zip",
)


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Which agent to evaluate, and how."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Run folder, as made by proximo train."""
    episodes: Count = 100
    """Episodes to play."""
    seed: Count = 0
    """Seed of the environments."""
    stochastic: bool = False
    """Draw actions from the policy; otherwise the most likely action is taken."""
    model: Annotated[OptionalPath, default_is("the run's model.zip")] = None
    """Another model file of the run, such as checkpoints/model_50000_steps.zip."""
    device: str = "auto"
    """Where the policy runs: auto, cpu, cuda, …"""


def run(words: Sequence[str]) -> int:
    arguments = parse(Evaluate, "evaluate", SUMMARY, EXAMPLES, words)
    from proximo.cli.console import output
    from proximo.cli.playing import evaluate_run, evaluation_table
    from proximo.cli.runs import Run

    run = Run.open(arguments.run)
    evaluation = evaluate_run(
        run,
        arguments.episodes,
        seed=arguments.seed,
        deterministic=not arguments.stochastic,
        model_file=arguments.model,
        device=arguments.device,
    )
    output().print(evaluation_table(evaluation, title=f"{algorithm_title(run.config.algo)} on {run.config.env}"))
    return 0
