"""``proximo watch``: a trained agent as a film, or in a window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from proximo.cli.command import check_at_least, flag, parse
from proximo.cli.flags import Count, OptionalPath, OptionalText, default_is

SUMMARY = """Film the trained agent of a run folder in real time, or watch it in a window; with --env, a model file
without a run folder."""
EXAMPLES = (
    "proximo watch runs/CartPole-v1-ppo-1-20260102-030405",
    "proximo watch RUN -o agent.mp4 --seconds 30",
    "proximo watch RUN --window --episodes 3",
    "proximo watch model.zip --env CartPole-v1",
)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Which agent to show, and how."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")] = flag(
        "Run folder, as made by proximo train; with --env, a model file."
    )
    env: Annotated[OptionalText, default_is("the run's")] = flag(
        "What a model file without a run folder plays, such as CartPole-v1; wrappers are those of its preset.", None
    )
    preset: Annotated[OptionalText, default_is("the environment's")] = flag(
        "Another preset whose wrappers to use with --env, such as AntBulletEnv-v0:gaussian.", None
    )
    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"]), default_is("video.gif in the run folder")] = flag(
        'File of the film, such as agent.gif, or agent.mp4 (extra "video").', None
    )
    seconds: float = flag("Length of the film, such as 30.", 10.0)
    window: bool = flag("Open a window instead of writing a file.", False)
    episodes: Count = flag("Episodes to play in the window, such as 3.", 5)
    seed: Count = flag("Seed of the environment, such as 7.", 0)
    stochastic: bool = flag("Draw actions from the policy; otherwise the most likely action is taken.", False)
    model: Annotated[OptionalPath, default_is("the run's model.zip")] = flag(
        "Another model file of the run, such as best.zip of a training with --eval-every, or checkpoints/best.zip.",
        None,
    )


def run(words: Sequence[str]) -> int:
    arguments = parse(Watch, "watch", SUMMARY, EXAMPLES, words)
    check_numbers(arguments)
    from proximo.cli.console import output, quiet_libraries, shown_path
    from proximo.cli.playing import film_run, show_run
    from proximo.cli.runs import Run
    from proximo.envs.rendering import check_video_file

    run = Run.open_or_model(arguments.run, arguments.env, arguments.preset)
    played: dict[str, Any] = {
        "seed": arguments.seed,
        "deterministic": not arguments.stochastic,
        "model_file": arguments.model,
    }
    if arguments.window:
        with quiet_libraries():
            show_run(run, episodes=arguments.episodes, **played)
        return 0
    film = arguments.output or run.folder.own(run.folder.video("gif"))
    check_video_file(film)
    with quiet_libraries():
        path = film_run(run, film, seconds=arguments.seconds, **played)
    output().print(shown_path(path), markup=False)
    return 0


def check_numbers(arguments: Watch) -> None:
    check_at_least("--seed", arguments.seed, 0)
    check_at_least("--episodes", arguments.episodes, 1)
    if not (math.isfinite(arguments.seconds) and arguments.seconds > 0):
        raise ValueError(f"--seconds is {arguments.seconds}; expected a finite number above 0")
