"""A run as the command line knows it: its folder, and the configuration that describes it completely."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from proximo.config import RENAMED
from proximo.envs.make import versioned_id
from proximo.training.run_folder import GROUP_FILE, RunFolder, RunFolderError, run_name
from proximo.training.trackers import TRACKERS
from proximo.zoo import Preset
from proximo.zoo.presets import preset_by_name

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
        except (ArithmeticError, ValueError) as error:  # an infinite number is no whole one
            raise RunFolderError(f"{source}: {error}") from error
        return cls(env=table["env"], algo=table["algo"], seed=table["seed"], preset=preset, session=session)

    def completed(self, defaults: Mapping[str, Any], policy: str) -> RunConfig:
        """With every hyperparameter written out, so that the run can be repeated when defaults have changed."""
        preset = self.preset.changed({**defaults, **self.preset.arguments}, policy=policy)
        return replace(self, preset=preset)


def runs_of_group(path: Path) -> list[Path]:
    """The run folders in a group of ``proximo train --seeds``, oldest first; none where ``path`` is no group.

    Links are left out: they may lead to runs of the reader's own.
    """
    folders = sorted(file.parent for file in path.glob("*/config.toml")) if (path / GROUP_FILE).is_file() else []
    return [folder for folder in folders if not folder.is_symlink()]


def equal_seeds(runs: Sequence[Run]) -> str:
    """What to say of repetitions with one seed, if there are any: an interval over them is narrower than is true."""
    seeds = [run.config.seed for run in runs]
    repeated = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if not repeated:
        return ""
    config = runs[0].config
    return (
        f"several runs of {config.algo} on {config.env} have the seed {', '.join(map(str, repeated))}: each counts "
        "as a seed of its own, though they are no independent samples; leave out all but one"
    )


def warn_about_equal_seeds(runs: Sequence[Run]) -> None:
    if text := equal_seeds(runs):
        warnings.warn(text, stacklevel=2)


@dataclass(frozen=True)
class Run:
    """A run folder and its configuration."""

    folder: RunFolder
    config: RunConfig
    model_file: Path | None = None  # a model without a run folder

    @property
    def name(self) -> str:
        return (self.model_file or self.folder.path.resolve()).name

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

    @classmethod
    def of_model(cls, path: Path, env: str, preset: str = "auto") -> Self:
        """A model file by itself, to be played in ``env`` with the wrappers of a preset."""
        from proximo.cli.algorithms import algorithm_of_file

        algo, is_normalized = algorithm_of_file(path)
        env = versioned_id(env)
        chosen = preset_by_name(preset, algo, env)
        # the file knows whether observations were normalised; the preset only, how
        normalize = (chosen.normalize or True) if is_normalized else False
        config = RunConfig(env=env, algo=algo, seed=0, preset=chosen.changed(normalize=normalize))
        return cls(RunFolder(path.parent), config, path)

    @classmethod
    def open_or_model(cls, path: Path, env: str | None, preset: str | None) -> Self:
        """The run at ``path``, or with ``env`` the model file there."""
        if env is not None:
            if not path.exists():
                raise FileNotFoundError(f"there is no {path}")
            if not path.is_file():
                raise ValueError(f"--env is for a model file, and {path} is none; leave --env out for a run folder")
            return cls.of_model(path, env, preset or "auto")
        if preset is not None:
            raise ValueError("--preset says how to wrap the environment of a bare model file: give --env too")
        try:
            return cls.open(path)
        except RunFolderError as error:
            if path.is_file():
                raise ValueError(f"{path} is in no run folder; say what it plays: --env CartPole-v1") from error
            raise

    def is_over(self) -> bool:
        """Whether it was trained to its last step, and evaluated."""
        result = self.folder.read_result()
        return result is not None and int(result.get("steps", 0)) >= self.config.preset.n_timesteps

    def make_logger(self, trackers: Sequence[str] = (), resume: bool = False) -> Logger:
        """Metrics as CSV and as JSON lines, and into trackers; the files and trackers' runs of a resumed run go on."""
        from proximo.training.log_formats import CSVOutputFormat, JSONOutputFormat, KVWriter, TensorBoardOutputFormat
        from proximo.training.loggers import Logger
        from proximo.training.trackers import make_tracker

        outputs: list[KVWriter] = [
            CSVOutputFormat(str(self.folder.progress_csv), resume),
            JSONOutputFormat(str(self.folder.progress_jsonl), resume),
        ]
        above = self.folder.path.resolve().parent
        group = above.name if (above / GROUP_FILE).is_file() else None
        for name in trackers:
            if name == "tensorboard":
                outputs.append(TensorBoardOutputFormat(str(self.folder.path), resume))
            else:
                outputs.append(make_tracker(name, self.folder.path, resume, group))
        return Logger(str(self.folder.path), outputs)

    @classmethod
    def open_all(
        cls, paths: Sequence[str | os.PathLike[str]], env: str | None = None, preset: str | None = None
    ) -> list[Self]:
        """The runs at ``paths``, in their order, those of groups among them, or with ``env`` the model files.

        One that is named twice is there once.
        """
        if not paths:
            raise ValueError("name at least one run folder, such as runs/CartPole-v1-ppo-1-20260102-030405")
        folders = [folder for path in paths for folder in runs_of_group(Path(path)) or [Path(path)]]
        runs = [cls.open_or_model(folder, env, preset) for folder in folders]
        return list({(run.model_file or run.folder.path).resolve(): run for run in runs}.values())

    def contents(self) -> list[tuple[str, str]]:
        """What there is in the folder: what it is, and the names of its files."""
        folder = self.folder
        known = [
            ("model", [folder.model]),
            ("best model", [folder.best]),
            ("checkpoints", [folder.checkpoints]),
            ("metrics", [folder.progress_csv, folder.progress_jsonl]),
            ("evaluations", [folder.evaluations, folder.result]),
            ("learning curve", [folder.learning_curve]),
            ("film", [folder.video("gif"), folder.film(0).parent]),
            ("configuration", [folder.config, folder.versions]),
            ("trackers' runs", [folder.path / f"{name}.json" for name in TRACKERS]),
            ("journal", [folder.journal]),
            ("printed by others", [folder.printed]),
        ]
        present = [(title, [path.name for path in paths if path.exists()]) for title, paths in known]
        return [(title, ", ".join(names)) for title, names in present if names]
