"""``proximo train``: preset and flags to environments, model, training, evaluation and a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from proximo.cli.algorithms import ALGORITHMS, algorithm_class
from proximo.cli.command import parse
from proximo.cli.flags import UNSET, given, hyperparameter_flags, optional_flag, toml_table, whole_number, yes_or_no
from proximo.zoo import Preset, load_preset
from proximo.zoo.presets import named_preset

SUMMARY = """Train an agent on ENV, any id that gymnasium knows ("package:Id-v0" imports a package first).

Everything about the training goes into a new run folder: config.toml, the versions, the metrics (progress.csv and
progress.jsonl), the learning curve and model.zip. Ctrl-C ends the training early and keeps what there is."""
EXAMPLES = (
    "proximo train CartPole-v1",
    "proximo train CartPole-v1 --seed 1 --until 475 --video",
    "proximo train Pendulum-v1 --learning-rate lin_1e-3 --n-steps 512",
    "proximo train HalfCheetah-v5 --preset none --envs 4 --workers --normalize true",
    "proximo train PongNoFrameskip-v4 --steps 1e6 --checkpoint-every 1e5",
)

_PRESET = "the preset's"


@dataclass(frozen=True, kw_only=True)
class Train:
    """What to train, for how long, and where the run folder goes."""

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV", help="Id of the environment.")]
    algo: Literal["ppo"] = "ppo"
    """The algorithm."""
    preset: Annotated[str, tyro.conf.arg(metavar="{auto,none,NAME,FILE}")] = "auto"
    """Tuned hyperparameters: auto takes those of ENV, none the library's defaults; or the name of a preset, or the
    config.toml of a run to repeat it. Flags go before."""
    steps: optional_flag(whole_number, "INT", "Steps of the training, all environments together.", _PRESET) = UNSET  # type: ignore[valid-type]
    envs: optional_flag(whole_number, "INT", "Parallel environments.", _PRESET) = UNSET  # type: ignore[valid-type]
    seed: optional_flag(whole_number, "INT", "Seed of everything random.", "a random one, written down") = UNSET  # type: ignore[valid-type]
    until: float | None = None
    """Train on, to at most five times the steps, until the evaluation's mean return is at least this."""
    eval_episodes: int = 20
    """Episodes of the evaluation at the end; 0 leaves it out."""
    video: bool = False
    """Film the trained agent into video.gif."""
    checkpoint_every: Annotated[int, optional_flag(whole_number, "INT", "", "")] = 0
    """Save a checkpoint every so many steps; 0 saves none."""
