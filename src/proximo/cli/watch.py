"""``proximo watch``: a trained agent as a film, or in a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from proximo.cli.command import parse
from proximo.cli.flags import Count, OptionalPath, default_is

SUMMARY = """Film the trained agent of a run folder in real time, or watch it in a window."""
EXAMPLES = (
    "proximo watch runs/CartPole-v1-ppo-1-20260102-030405",
    "proximo watch RUN -o agent.mp4 --seconds 30",
    "proximo watch RUN --window --episodes 3",
)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Which agent to show, and how."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Run folder, as made by proximo train."""
    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"]), default_is("video.gif in the run folder")] = None
    """File of the film: .gif, or .mp4 (extra "video")."""
    seconds: float = 10.0
    """Length of the film."""
    window: bool = False
    """Open a window instead of writing a file."""
    episodes: Count = 5
    """Episodes to play in the window."""
    seed: Count = 0
    """Seed of the environment."""
    stochastic: bool = False
    """Draw actions from the policy; otherwise the most likely action is taken."""
    model: Annotated[OptionalPath, default_is("the run's model.zip")] = None
    """Another model file of the run, such as checkpoints/model_50000_steps.zip."""


def run(words: Sequence[str]) -> int:
    arguments = parse(Watch, "watch", SUMMARY, EXAMPLES, words)
    from proximo.cli.console import output, shown_path
    from proximo.cli.playing import film_run, show_run
    from proximo.cli.runs import Run

    run = Run.open(arguments.run)
    deterministic = not arguments.stochastic
    if arguments.window:
        show_run(
            run,
            episodes=arguments.episodes,
            seed=arguments.seed,
            deterministic=deterministic,
            model_file=arguments.model,
        )
        return 0
    path = film_run(
        run,
        arguments.output or run.folder.video("gif"),
        seconds=arguments.seconds,
        seed=arguments.seed,
        deterministic=deterministic,
        model_file=arguments.model,
    )
    output().print(shown_path(path))
    return 0
