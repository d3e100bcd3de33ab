"""A run that goes on beyond the steps that it was started with, or that starts from the weights of another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from proximo.cli.console import output, shown_path
from proximo.cli.runs import Run
from proximo.functional.schedules import FloatSchedule
from proximo.persistence.initial_weights import start_from

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm


def total_steps(run: Run, model: OnPolicyAlgorithm, asked: int | None) -> int:
    """The step at which a resumed run ends: the one asked for, or that of the run as it stands."""
    planned = max(model._total_timesteps, run.config.preset.n_timesteps)
    if asked is None:
        return planned
    if asked <= model.num_timesteps:
        raise ValueError(
            f"--steps is {asked:,}, the run has {model.num_timesteps:,} steps already; give the steps of the whole "
            "training, more than these"
        )
    return asked


def extended(run: Run, model: OnPolicyAlgorithm, total: int) -> Run:
    """The run with another number of steps, written down; what schedules make of it is said."""
    if total == run.config.preset.n_timesteps:
        return run
    for name in type(model).config_class.names():
        if callable(value := getattr(model, name)):
            schedule = FloatSchedule(value)
            if len({schedule(remaining / 8) for remaining in range(9)}) == 1:  # a constant in the form of a schedule
                continue
            before, after = (
                schedule(max(0.0, 1.0 - model.num_timesteps / steps)) for steps in (model._total_timesteps, total)
            )
            output().print(
                f"[yellow]{name}[/] is a schedule: it goes on over {total:,} steps, from {before:g} to {after:g} now; "
                "a run of that length from the start would have followed it all along"
            )
    longer = Run(run.folder, replace(run.config, preset=run.config.preset.changed({}, n_timesteps=total)))
    longer.folder.write_config(longer.config.as_table())
    return longer


def initial_model(path: Path) -> Path:
    """The model file that ``--init-from`` names: the file itself, or the model of a run."""
    return Run.open(path).folder.model if path.is_dir() else path


def init_from(model: OnPolicyAlgorithm, path: Path) -> None:
    """Start from the weights of a model file, and say what was taken."""
    source = initial_model(path)
    taken = start_from(model, source)
    output().print(f"{' and '.join(taken)} from {escape(shown_path(source))}")
