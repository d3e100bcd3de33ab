"""A run as the command line knows it: its folder, and the configuration that describes it completely."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from proximo.config import RENAMED
from proximo.training.run_folder import RunFolder, RunFolderError, run_name
from proximo.zoo import Preset

if TYPE_CHECKING:
    from proximo.training.loggers import Logger

_OWN_KEYS = ("env", "algo", "seed", "preset")
_SESSION = "session"


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What is trained and how; ``config.toml`` holds it in the keys of the presets."""

    env: str
    algo: str
    seed: int
    preset: Preset
    session: Mapping[str, Any] = field(default_factory=dict)
    """What ``proximo train`` was asked to do besides: needed to resume the run, not to repeat it."""

    def as_table(self) -> dict[str, Any]:
        own = {"env": self.env, "algo": self.algo, "seed": self.seed, "preset": self.preset.name}
        return {**own, **self.preset.as_row(), **({_SESSION: dict(self.session)} if self.session else {})}

    def without_seed(self) -> dict[str, Any]:
        """What is trained: runs that agree in this are repetitions of one experiment, each with its seed."""
        return {"env": self.env, "algo": self.algo, **self.preset.as_row()}

    @classmethod
    def from_table(cls, table: Mapping[str, Any], source: object) -> Self:
        """``RunFolderError`` for a table that is not the configuration of a run."""
        if missing := [key for key in _OWN_KEYS if key not in table]:
            raise RunFolderError(f"{source} lacks {', '.join(missing)}; expected the config.toml of a run")
        session = table.get(_SESSION, {})
        texts, seed = [table[key] for key in ("env", "algo", "preset")], table["seed"]
        if not all(isinstance(text, str) for text in texts) or type(seed) is not int or not isinstance(session, dict):
            raise RunFolderError(f"{source}: env, algo and preset are texts, seed a whole number, session a table")
        row = {RENAMED.get(key, key): value for key, value in table.items() if key not in (*_OWN_KEYS, _SESSION)}
        try:
            preset = Preset.from_row(table["preset"], row)
        except ValueError as error:
            raise RunFolderError(f"{source}: {error}") from error
        return cls(env=table["env"], algo=table["algo"], seed=table["seed"], preset=preset, session=session)

    def completed(self, defaults: Mapping[str, Any], policy: str) -> RunConfig:
        """With every hyperparameter written out, so that the run can be repeated when defaults have changed."""
        preset = self.preset.changed({**defaults, **self.preset.arguments}, policy=policy)
        return replace(self, preset=preset)


def warn_about_equal_seeds(runs: Sequence[Run]) -> None:
    """Repetitions with one seed say nothing about others: an interval over them would be narrower than is true."""
    seeds = [run.config.seed for run in runs]
    if repeated := sorted({seed for seed in seeds if seeds.count(seed) > 1}):
        config = runs[0].config
        warnings.warn(
            f"several runs of {config.algo} on {config.env} have the seed {', '.join(map(str, repeated))}: each counts "
            "as a seed of its own, though they are no independent samples; leave out all but one",
            stacklevel=2,
        )


@dataclass(frozen=True)
class Run:
    """A run folder and its configuration."""

    folder: RunFolder
    config: RunConfig

    @classmethod
    def create(cls, root: Path, config: RunConfig) -> Self:
        """A new folder with configuration and versions in it."""
        folder = RunFolder.create(root, run_name(config.env, config.algo, config.seed))
        folder.write_config(config.as_table())
        folder.write_versions()
        return cls(folder, config)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        folder = RunFolder.open(path)
        return cls(folder, RunConfig.from_table(folder.read_config(), folder.config))

    def make_logger(self, tensorboard: bool = False, resume: bool = False) -> Logger:
        """Metrics as CSV and as JSON lines, on request for TensorBoard too; the files of a resumed run go on."""
        from proximo.training.log_formats import CSVOutputFormat, JSONOutputFormat, KVWriter, TensorBoardOutputFormat
        from proximo.training.loggers import Logger

        outputs: list[KVWriter] = [
            CSVOutputFormat(str(self.folder.progress_csv), resume),
            JSONOutputFormat(str(self.folder.progress_jsonl), resume),
        ]
        if tensorboard:
            outputs.append(TensorBoardOutputFormat(str(self.folder.path), resume))
        return Logger(str(self.folder.path), outputs)

    @classmethod
    def open_all(cls, paths: Sequence[str | os.PathLike[str]]) -> list[Self]:
        """The runs at ``paths``, in their order; one that is named twice is there once."""
        if not paths:
            raise ValueError("name at least one run folder, such as runs/CartPole-v1-ppo-1-20260102-030405")
        runs = [cls.open(path) for path in paths]
        return list({run.folder.path.resolve(): run for run in runs}.values())

    def contents(self) -> list[tuple[str, str]]:
        """What there is in the folder: what it is, and the names of its files."""
        folder = self.folder
        known = [
            ("model", [folder.model]),
            ("checkpoints", [folder.checkpoints]),
            ("metrics", [folder.progress_csv, folder.progress_jsonl]),
            ("learning curve", [folder.learning_curve]),
            ("film", [folder.video("gif")]),
            ("configuration", [folder.config, folder.versions]),
        ]
        present = [(title, [path.name for path in paths if path.exists()]) for title, paths in known]
        return [(title, ", ".join(names)) for title, names in present if names]
