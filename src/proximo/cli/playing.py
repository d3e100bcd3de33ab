"""A trained agent of a run folder at play: evaluated, filmed, shown in a window."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from proximo.cli.algorithms import algorithm_class, masks_actions
from proximo.cli.console import Counter, counting
from proximo.cli.runs import Run
from proximo.data import Array, StepArrays
from proximo.envs.rendering import write_video
from proximo.rollout.masks import MaskReader
from proximo.training.evaluation import Evaluation, evaluate
from proximo.zoo import make_preset_env

if TYPE_CHECKING:
    from rich.table import Table

    from proximo.agents.on_policy import OnPolicyAlgorithm
    from proximo.envs import VecEnv

FILM_RATE = 25  # frames per second
FILM_WIDTH = 480  # pixels; larger pictures are made smaller


def load_agent(
    run: Run,
    *,
    n_envs: int,
    seed: int | None,
    model_file: Path | None = None,
    render_mode: str | None = None,
    device: str = "auto",
) -> tuple[OnPolicyAlgorithm, VecEnv]:
    """The model of a run and environments like those it was trained in, statistics of normalisation included."""
    path = find_model(run, model_file)
    config = run.config
    env = make_preset_env(config.preset, config.env, n_envs=n_envs, seed=seed, training=False, render_mode=render_mode)
    model = algorithm_class(config.algo).load(path, env=env, device=device)
    attached = model.get_env()
    return model, env if attached is None else attached


def find_model(run: Run, name: Path | None) -> Path:
    """The run's model, or the file of that name in the run folder, or the file at that path."""
    if name is None:
        name = run.folder.model
    elif (run.folder.path / name).is_file():
        name = run.folder.path / name
    if not name.is_file():
        raise FileNotFoundError(f"there is no model {name}; has the training in {run.folder.path} saved one yet?")
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
    """Play ``episodes`` episodes, with a live count."""
    n_envs = min(run.config.preset.n_envs, episodes)
    model, env = load_agent(run, n_envs=n_envs, seed=seed, model_file=model_file, device=device)
    try:
        with counting("evaluating", episodes, "episodes") as counter:
            return evaluate(
                _Counted(model, counter),
                env,
                episodes,
                deterministic=deterministic,
                use_masking=masks_actions(run.config.algo),
            )
    finally:
        env.close()


class _Counted:
    """Passes predictions on, and counts the episodes that have begun anew since."""

    def __init__(self, model: OnPolicyAlgorithm, counter: Counter) -> None:
        self._model = model
        self._counter = counter
        self._is_first = True

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Array | None = None,
    ) -> tuple[Any, Any]:
        if not self._is_first:
            self._counter.add(int(np.sum(episode_start)))
        self._is_first = False
        return self._model.predict(observation, state, episode_start, deterministic, action_masks)


def evaluation_table(evaluation: Evaluation, title: str) -> Table:
    """Returns and lengths of the episodes, with the interval of the mean."""
    from rich.table import Table

    rewards, lengths = np.array(evaluation.episode_rewards), np.array(evaluation.episode_lengths)
    mean, low, high = evaluation.interval
    interval = f"{low:.2f} … {high:.2f}" if len(rewards) > 1 else "–"  # one sample has none
    episodes = f"{len(rewards)} episode{'s' if len(rewards) > 1 else ''}"
    table = Table(title=f"{title}, {episodes}", title_justify="left", title_style="bold")
    for name in ("", "mean", "95 % interval", "std", "min", "max"):
        table.add_column(name, justify="right" if name else "left")
    table.add_row(
        "return", f"[bold]{mean:.2f}[/]", interval, f"{evaluation.std:.2f}",
        f"{rewards.min():.2f}", f"{rewards.max():.2f}",
    )  # fmt: skip
    table.add_row("length", f"{lengths.mean():.1f}", "", f"{lengths.std():.1f}", f"{lengths.min()}", f"{lengths.max()}")
    if evaluation.success_rate is not None:
        table.add_row("success", f"{100 * evaluation.success_rate:.1f} %", "", "", "", "")
    return table


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
    _render_without_display()
    model, env = load_agent(run, n_envs=1, seed=seed, model_file=model_file, render_mode="rgb_array")
    try:
        rate = _steps_per_second(run, env)
        stride = max(round(rate / FILM_RATE), 1)  # every frame of a 50 Hz environment would only make the file larger
        length = max(round(seconds * rate / stride), 1)
        frames: list[Array] = []
        with counting("filming", length, "frames") as counter:
            steps = play(model, env, deterministic, masks_actions(run.config.algo))
            for _ in islice(steps, 0, length * stride, stride):
                frames.append(_picture(env, run.config.env))
                counter.add(1)
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_video(path, frames, rate / stride)
    finally:
        env.close()


def show_run(
    run: Run,
    *,
    episodes: int,
    seed: int | None = None,
    deterministic: bool = True,
    model_file: Path | None = None,
) -> None:
    """Let the agent play ``episodes`` episodes in a window."""
    model, env = load_agent(run, n_envs=1, seed=seed, model_file=model_file, render_mode="human")
    try:
        ended = 0
        for step in play(
            model, env, deterministic, masks_actions(run.config.algo)
        ):  # in human mode the environment draws by itself
            ended += 0 if step is None else int(step.terminated[0] | step.truncated[0])
            if ended >= episodes:
                return
    finally:
        env.close()


def play(
    model: OnPolicyAlgorithm, env: VecEnv, deterministic: bool, use_masking: bool = False
) -> Iterator[StepArrays | None]:
    """Play for ever, handing out None after the reset, then each step."""
    reader = MaskReader(env) if use_masking else None
    observations = env.reset()
    state = None
    episode_starts: Array = np.ones(env.num_envs, np.bool_)
    yield None
    for number in count():
        masks = None if reader is None else reader.read(number)
        actions, state = model.predict(observations, state, episode_starts, deterministic, masks)
        step = env.step_arrays(actions)
        yield step
        observations, episode_starts = step.observations, step.terminated | step.truncated


def _render_without_display() -> None:
    """On a machine without a display, tell pygame and MuJoCo not to look for one, unless the user has told them."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("MUJOCO_GL", "egl")


def _steps_per_second(run: Run, env: VecEnv) -> float:
    """Steps of the agent per second of the environment's own time."""
    if "AtariWrapper" in run.config.preset.env_wrapper:
        return 60 / 4  # the console shows 60 frames a second, the wrapper holds each action for four
    return float(env.get_attr("metadata", 0)[0].get("render_fps") or 30)


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
