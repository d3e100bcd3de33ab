"""A trained agent of a run folder at play: evaluated, filmed, shown in a window."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import closing, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape

from proximo.analysis.evaluation import Evaluation, evaluate, play
from proximo.cli.algorithms import algorithm_class, algorithm_title, masks_actions
from proximo.cli.console import counting, shown_path
from proximo.cli.runs import Run, RunConfig, warn_about_equal_seeds
from proximo.data import Array
from proximo.distributed import is_first, join
from proximo.envs.dependencies import naming_the_extra
from proximo.envs.rendering import Film
from proximo.functional.statistics import Interval, mean_interval
from proximo.zoo import make_preset_env
from proximo.zoo.wrappers import name_and_arguments

if TYPE_CHECKING:
    from rich.table import Table

    from proximo.agents.on_policy import OnPolicyAlgorithm
    from proximo.envs import VecEnv

FILM_RATE = 25  # frames per second
FILM_SECONDS = 10.0
FILM_WIDTH = 480  # pixels; larger pictures are made smaller


def load_agent(
    run: Run,
    *,
    n_envs: int,
    seed: int | None,
    model_file: Path | None = None,
    render_mode: str | None = None,
    device: str = "auto",
    together: bool = False,
) -> tuple[OnPolicyAlgorithm, VecEnv]:
    """The model of a run and environments like those it was trained in, statistics of normalisation included.

    Processes that evaluate ``together`` all call this; only the first needs the file.
    """
    path = find_model(run, model_file) if is_first() or not together else run.folder.model
    config = run.config
    env = make_preset_env(config.preset, config.env, n_envs=n_envs, seed=seed, training=False, render_mode=render_mode)
    with warnings.catch_warnings():  # loading gives them the seed of the training; an EnvPool keeps that of its making
        warnings.filterwarnings("ignore", "an EnvPool is seeded when it is made")
        model = algorithm_class(config.algo).load(path, env=env, device=device, distributed=together)
    attached = model.get_env() or env
    before = n_envs * model.rank  # other episodes in each process
    if seed is not None:
        attached.seed(seed + before)
    return model, attached


def find_model(run: Run, name: Path | None) -> Path:
    """The run's model, or the file of that name in the run folder, or the file at that path."""
    if name is None:
        name = run.model_file or run.folder.model
    elif (run.folder.path / name).is_file():
        name = run.folder.path / name
    if not name.is_file():
        folder = run.folder
        saved = [str(path.relative_to(folder.path)) for path in sorted(folder.path.rglob("*.zip"))]
        there = f"there are {', '.join(saved)}" if saved else "has the training saved one yet?"
        raise FileNotFoundError(f"there is no model {name}; in {folder.path}: {there}")
    return name


def evaluate_run(
    run: Run,
    episodes: int,
    *,
    seed: int | None = None,
    deterministic: bool = True,
    model_file: Path | None = None,
    device: str = "auto",
) -> Evaluation:
    """Play ``episodes`` episodes, with a live count; processes that trained together play some of them each."""
    group = join()
    own = episodes if group is None else group.own_part(episodes)
    n_envs = max(1, min(run.config.preset.n_envs, own))
    model, env = load_agent(
        run, n_envs=n_envs, seed=seed, model_file=model_file, device=device, together=group is not None
    )
    with closing(env), counting("evaluating", max(own, 1), "episodes") as display:
        found = Evaluation((), ())
        if own:
            found = evaluate(model, env, own, deterministic=deterministic, progress=display.update)
        return found if group is None else Evaluation.joined(group.gather(found, "an evaluation"))


def evaluation_table(evaluation: Evaluation, title: str) -> Table:
    """Returns and lengths of the episodes, with the interval of the mean."""
    from rich.table import Table

    rewards, lengths = np.array(evaluation.episode_rewards), np.array(evaluation.episode_lengths)
    table = Table(title=f"{escape(title)}, {_episodes(len(rewards))}", title_justify="left", title_style="bold")
    for name in ("", "mean", "95 % interval", "std", "min", "max"):
        table.add_column(name, justify="right" if name else "left")
    table.add_row(
        "return", *_mean_and_interval(evaluation.interval), f"{evaluation.std:.2f}",
        f"{rewards.min():.2f}", f"{rewards.max():.2f}",
    )  # fmt: skip
    table.add_row("length", f"{lengths.mean():.1f}", "", f"{lengths.std():.1f}", f"{lengths.min()}", f"{lengths.max()}")
    if evaluation.success_rate is not None:
        table.add_row("success", f"{100 * evaluation.success_rate:.1f} %", "", "", "", "")
    return table


def comparison_table(runs: Sequence[Run], evaluations: Sequence[Evaluation]) -> Table:
    """One row per run, and where they differ only in their seed a last one: the mean of their means."""
    from rich.table import Table

    titles = {f"{algorithm_title(run.config.algo)} on {run.config.env}" for run in runs}
    episodes = f"{_episodes(len(evaluations[0].episode_rewards))} each"
    table = Table(title=escape(", ".join([*sorted(titles), episodes])), title_justify="left", title_style="bold")
    for name in ("run", "return", "95 % interval", "length"):
        table.add_column(name, justify="left" if name == "run" else "right")
    lengths = [float(np.mean(evaluation.episode_lengths)) for evaluation in evaluations]
    for name, evaluation, length in zip(_short_names(runs), evaluations, lengths, strict=True):
        table.add_row(escape(name), *_mean_and_interval(evaluation.interval), f"{length:.1f}")
    if len(runs) > 1 and all(run.config.without_seed() == runs[0].config.without_seed() for run in runs):
        warn_about_equal_seeds(runs)
        over_seeds = mean_interval([evaluation.mean for evaluation in evaluations])
        table.add_section()
        table.add_row(f"mean of {len(runs)} seeds", *_mean_and_interval(over_seeds), f"{np.mean(lengths):.1f}")
    return table


def _short_names(runs: Sequence[Run]) -> list[str]:
    """The folders' names, or their paths where two have the same name."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [shown_path(run.model_file or run.folder.path) for run in runs]


def _episodes(number: int) -> str:
    return f"{number} episode{'s' if number > 1 else ''}"


def _mean_and_interval(interval: Interval) -> tuple[str, str]:
    mean, low, high = interval
    return f"[bold]{mean:.2f}[/]", "–" if math.isnan(low) else f"{low:.2f} … {high:.2f}"  # one sample has none


def film_run(
    run: Run,
    path: Path,
    *,
    seconds: float,
    seed: int | None = None,
    deterministic: bool = True,
    model_file: Path | None = None,
) -> Path:
    """Film ``seconds`` of the agent's play, in real time, to a GIF or MP4 file; returns the file written."""
    render_without_display()
    model, env = load_agent(run, n_envs=1, seed=seed, model_file=model_file, render_mode="rgb_array")
    with closing(env):
        return film(model, env, run.config, path, seconds=seconds, deterministic=deterministic)


def film(
    model: OnPolicyAlgorithm,
    env: VecEnv,
    config: RunConfig,
    path: Path,
    *,
    seconds: float,
    deterministic: bool = True,
    live: bool = True,
) -> Path:
    """Film ``model`` at play in ``env``, one environment that draws; returns the file written.

    ``live`` counts the frames on the terminal, which only one display at a time can do.
    """
    with naming_the_extra(f"filming {config.env}"):
        rate = _steps_per_second(config, env)
        stride = max(round(rate / FILM_RATE), 1)  # every frame of a 50 Hz environment would only make the file larger
        length = max(round(seconds * rate / stride), 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        steps = play(model, env, deterministic=deterministic, use_masking=masks_actions(config.algo))
        shown = counting("filming", length, "frames") if live else nullcontext()
        with shown as display, Film(path, rate / stride) as written:
            for _ in islice(steps, 0, length * stride, stride):
                written.add(_picture(env, config.env))
                if display is not None:
                    display.update(written.frames)
        return written.path


def check_filming(config: RunConfig) -> None:
    """Draw one picture of the environment, so that what keeps it from being filmed is found out before a training."""
    render_without_display()
    env = make_preset_env(config.preset, config.env, n_envs=1, training=False, render_mode="rgb_array")
    with closing(env), naming_the_extra(f"filming {config.env}"):
        env.reset()
        _picture(env, config.env)


def show_run(
    run: Run,
    *,
    episodes: int,
    seed: int | None = None,
    deterministic: bool = True,
    model_file: Path | None = None,
) -> None:
    """Let the agent play ``episodes`` episodes in a window."""
    if not _has_display() and "SDL_VIDEODRIVER" not in os.environ:
        raise ValueError("there is no display for --window; leave it out to film into video.gif")
    model, env = load_agent(run, n_envs=1, seed=seed, model_file=model_file, render_mode="human")
    with closing(env), naming_the_extra(f"showing {run.config.env}"):
        ended = 0
        # in human mode the environment draws by itself
        steps = play(model, env, deterministic=deterministic, use_masking=masks_actions(run.config.algo))
        for step, _ in steps:
            ended += 0 if step is None else int(step.terminated[0] | step.truncated[0])
            if ended >= episodes:
                return


def _has_display() -> bool:
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def render_without_display() -> None:
    """On a machine without a display, tell pygame and MuJoCo not to look for one, unless the user has told them."""
    if not _has_display():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("MUJOCO_GL", "egl")


def _steps_per_second(config: RunConfig, env: VecEnv) -> float:
    """Steps of the agent per second of the environment's own time."""
    wrappers = dict(map(name_and_arguments, config.preset.env_wrapper))
    if "AtariWrapper" in wrappers:
        return 60 / 4  # the console shows 60 frames a second, the wrapper holds each action for four
    held = wrappers.get("FrameSkip", {"skip": 1}).get("skip", 4)
    return float(env.get_attr("metadata", 0)[0].get("render_fps") or 30) / held


def _picture(env: VecEnv, env_id: str) -> Array:
    frame = env.render()
    if not isinstance(frame, np.ndarray):
        raise ValueError(f"{env_id} cannot be filmed: rendering it gave {type(frame).__name__}, not an image")
    height, width = frame.shape[:2]
    if width <= FILM_WIDTH:
        return frame.copy()
    from PIL import Image

    size = (FILM_WIDTH, round(height * FILM_WIDTH / width))
    return np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.LANCZOS))
