"""A study: the folder that several processes and machines share, its trials in Optuna's journal, its best presets."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from proximo import ALGORITHMS
from proximo.errors import MissingExtraError, ProximoError, near_matches
from proximo.files.atomic import write_whole
from proximo.files.plain_text import brief, printable, read_toml
from proximo.training.run_folder import PRESET_FILE, to_toml
from proximo.training.run_lock import RunLock, RunLockedError
from proximo.tuning.job import Job, preset_table
from proximo.tuning.pruning import LEAST_PAIRS, Scores, is_worse
from proximo.tuning.space import Space
from proximo.zoo import Preset

if TYPE_CHECKING:
    import optuna

STUDY_FILE = "study.toml"
JOURNAL = "journal.log"
BEST_FILE = "best.toml"
PICTURE = "study.png"
PRUNERS = ("median", "wilcoxon", "none")
_NAME = "proximo"
_LEAST = {"reduction": 2, "seed": 0}
_START = 0  # the number of the trial that trains the start


class StudyError(ProximoError, ValueError):
    """A study that does not fit, or a folder that holds none."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all processes of a study agree on."""

    env: str
    algo: str
    trials: int = 50
    seeds: tuple[int, ...] = (1, 2, 3)
    rungs: tuple[int, ...]  # steps after which trials are compared; the last is the whole training
    reduction: int = 3
    pruner: str = "median"
    eval_episodes: int = 20
    fresh_seeds: tuple[int, ...] = ()
    confirmed: int = 3
    seed: int = 0  # of the search
    workers: int | str | None = None  # of each training, as the flag of `proximo train`
    device: str | None = None

    def __post_init__(self) -> None:
        for name in ("trials", "reduction", "eval_episodes", "confirmed", "seed"):
            least = _LEAST.get(name, 1)
            if not _is_count(getattr(self, name), least):
                raise self._refused(name, f"expected a whole number of at least {least}")
        for name in ("seeds", "fresh_seeds"):
            if not _are_counts(getattr(self, name), 0) or not (self.seeds or name == "fresh_seeds"):
                raise self._refused(name, "expected a list of whole numbers, such as 1, 2, 3")
        if not self.rungs or not _are_counts(self.rungs, 1) or list(self.rungs) != sorted(set(self.rungs)):
            raise self._refused("rungs", "expected a list of rising whole numbers, such as 1000, 3000")
        for name, known in (("algo", tuple(ALGORITHMS)), ("pruner", PRUNERS)):
            if getattr(self, name) not in known:
                raise self._refused(name, near_matches(str(getattr(self, name)), known))
        if not _is_word(self.env):
            raise self._refused("env", "expected the id of an environment, such as Pendulum-v1")
        if self.device is not None and not _is_word(self.device):
            raise self._refused("device", "expected a device such as cpu")
        if self.workers not in (None, "auto", "cores") and not _is_count(self.workers, 0):
            raise self._refused("workers", "expected auto, cores, or a number of at least 0")
        if self.pruner == "wilcoxon" and len(self.seeds) * len(self.rungs) < LEAST_PAIRS:
            raise StudyError(
                f"{len(self.seeds)} seeds on {len(self.rungs)} rungs are {len(self.seeds) * len(self.rungs)} pairs, of "
                f"which Wilcoxon's test is never sure; it needs {LEAST_PAIRS}: give more --seeds, or --pruner median"
            )

    def _refused(self, name: str, expected: str) -> StudyError:
        return StudyError(f"{name} is {brief(getattr(self, name))}; {expected}")


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _are_counts(values: Any, least: int) -> bool:
    return isinstance(values, tuple) and all(_is_count(value, least) for value in values)


def _is_word(value: Any) -> bool:
    """A text of one line that `proximo train` cannot take for a flag."""
    return isinstance(value, str) and value.isprintable() and value != "" and not value.startswith("-")


def rungs_of(steps: int, count: int, reduction: int) -> tuple[int, ...]:
    """The steps after which trials are compared: each rung has ``reduction`` times those of the one before.

    >>> rungs_of(90_000, 3, 3)
    (10000, 30000, 90000)
    """
    first = steps // reduction ** (count - 1)
    if first < 1:
        raise StudyError(f"{steps:,} steps are too few for {count} rungs, each {reduction} times the one before")
    return (*(first * reduction**rung for rung in range(count - 1)), steps)


class Study:
    """A study in its folder: made by :meth:`create`, found by :meth:`open`.

    ``study.toml`` says what is searched, ``journal.log`` is Optuna's storage, ``trials/0007`` a trial with a run folder
    per seed, ``confirmation/0007`` the same preset on fresh seeds, ``best.toml`` the result.

    Arguments:
        path: The folder.
        settings: What all processes of the study agree on.
        space: What is searched.
    """

    def __init__(self, path: Path, settings: Settings, space: Space) -> None:
        self.path = path
        self.settings = settings
        self.space = space
        with _naming_damage(path / JOURNAL):
            self.study = _optuna_study(path / JOURNAL, settings)

    # --------------------------------------------------------------------------------------------- making and finding

    @classmethod
    def create(cls, path: Path, settings: Settings, space: Space) -> Self:
        """A new study, its first trial the start; one that another process has made meanwhile is joined."""
        require_optuna()
        space.start_parameters()  # what is wrong with them is said before there is a study
        path.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            if not (path / STUDY_FILE).exists():
                _write(path / STUDY_FILE, settings, space)
                created = cls(path, settings, space)
                created._enqueue_start()
                return created
        return cls.open(path)

    @staticmethod
    def is_one(path: Path) -> bool:
        """Whether the folder holds a study."""
        return (path / STUDY_FILE).is_file()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """The study in a folder, to read it or to go on with it."""
        require_optuna()
        file = Path(path) / STUDY_FILE
        if not file.is_file():
            raise StudyError(f"{path} is no study: it has no {STUDY_FILE}; give the folder that `proximo tune` named")
        table = read_toml(file)
        try:
            for name in ("start", "space"):
                if not isinstance(table[name], dict):
                    raise StudyError(f"{name} is {brief(table[name])}; expected a table")
            start, ranges = Preset.from_row("start", table.pop("start")), table.pop("space")
            known = [item.name for item in fields(Settings)]
            if unknown := [name for name in table if name not in known]:
                raise StudyError(f"it has {brief(unknown[0])}; {near_matches(unknown[0], known)}")
            row: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
            }
            settings = Settings(**row)
            space = Space.from_table(settings.algo, start, ranges, settings.rungs[0])
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            raise StudyError(f"{file} does not describe a study ({error}); mend it or begin a new one") from error
        opened = cls(Path(path), settings, space)
        with _naming_damage(opened.path / JOURNAL):
            begun = opened._optuna_trials()
        if not begun:  # the process that made it ended before the start was in the journal
            with _locked(opened.path):
                opened._enqueue_start()
        return opened

    def _enqueue_start(self) -> None:
        """Make the start the first trial, if there is none; by whoever holds the lock."""
        if not self._optuna_trials():
            self.study.enqueue_trial(self.space.start_parameters(), user_attrs={"start": True})

    def extend(self, trials: int) -> None:
        """More trials than it was made with."""
        if trials < self.settings.trials:
            raise StudyError(
                f"the study has {self.settings.trials} trials, {trials} are fewer; leave --trials out, or give more"
            )
        if trials > self.settings.trials:
            with _locked(self.path):
                self.settings = replace(self.settings, trials=trials)
                _write(self.path / STUDY_FILE, self.settings, self.space)

    # ------------------------------------------------------------------------------------------------------------ jobs

    def next_job(self) -> Job | None:
        """What nobody works on: a trial whose process has gone, a new trial, then confirmations. It is claimed."""
        with _locked(self.path):
            return self._left_behind() or self._new_trial() or self._next_confirmation()

    def is_over(self) -> bool:
        """Whether all trials are finished and the best ones confirmed."""
        return self._trials_are_over() and all(job.read().is_trained for job in self.confirmations())

    def _left_behind(self) -> Job | None:
        import optuna

        for trial in self._optuna_trials(optuna.trial.TrialState.RUNNING):
            job = self.job(trial.number)
            if not job.is_free():
                continue
            if not job.preset_file.exists():  # its process ended while it drew the values
                self.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
                continue
            job.claim()
            return job
        return None

    def _new_trial(self) -> Job | None:
        import optuna

        begun = self._optuna_trials()
        waiting = [trial for trial in begun if trial.state == optuna.trial.TrialState.WAITING]
        if len(begun) - len(waiting) >= self.settings.trials:
            return None
        # only one process is here at a time, so that no two draw with the same seed
        number = len(begun) - len(waiting)
        self.study.sampler = optuna.samplers.TPESampler(
            seed=(self.settings.seed * 1_000_003 + number) % 2**32,
            n_startup_trials=max(4, min(10, self.settings.trials // 4)),
        )
        trial = self.study.ask()
        preset = self.space.suggest(trial)
        if trial.user_attrs.get("start"):
            preset = self.space.start  # as it is, also where the space has no such value
        table = preset_table(self.settings.env, self.settings.algo, preset)
        trial.set_user_attr("preset", to_toml(table))
        job = self.job(trial.number)
        job.write_preset(table)
        job.claim()
        return job

    def _trials_are_over(self) -> bool:
        trials = self._optuna_trials()
        return len(trials) >= self.settings.trials and all(trial.state.is_finished() for trial in trials)

    def _next_confirmation(self) -> Job | None:
        if not self._trials_are_over():
            return None
        for job in self.confirmations():
            if job.is_free() and not job.read().is_trained:
                job.write_preset(self._preset_table(job.number))
                job.claim()
                return job
        return None

    def job(self, number: int) -> Job:
        """A trial's job, with nothing read of it."""
        settings = self.settings
        return Job(self.path / "trials" / f"{number:04}", number, settings.seeds, settings.rungs)

    def jobs(self) -> list[Job]:
        """The trials that were begun, with their presets and scores."""
        return [self.job(trial.number).read() for trial in self._optuna_trials() if trial.state.name != "WAITING"]

    def confirmations(self) -> list[Job]:
        """Of the best trials and of the start, once all trials are over."""
        if not self.settings.fresh_seeds or not self._trials_are_over():
            return []
        numbers = [trial.number for trial in self.best_trials()[: self.settings.confirmed]]
        if _START not in numbers:
            numbers.append(_START)
        steps = (self.settings.rungs[-1],)
        return [
            Job(self.path / "confirmation" / f"{number:04}", number, self.settings.fresh_seeds, steps, True).read()
            for number in numbers
        ]

    def _preset_table(self, number: int) -> dict[str, Any]:
        if number == _START:  # its trial may have ended before it was written
            return preset_table(self.settings.env, self.settings.algo, self.space.start)
        return read_toml(self.job(number).folder / PRESET_FILE)

    # --------------------------------------------------------------------------------------------------------- verdicts

    def decide(self, job: Job) -> str:
        """What becomes of a trial now that a seed has a score: ``"goes on"``, ``"pruned"`` or ``"done"``.

        Between seeds the median or Wilcoxon's test decides, between rungs successive halving.
        """
        import optuna

        if job.is_confirmation:
            return "done" if job.is_trained else "goes on"
        if job.waiting_seeds() == list(job.seeds) and job.rung > 0:  # a rung is complete
            self._report(job, job.mean(job.rung - 1), job.rungs[job.rung - 1])
            pruned = self._trial(job.number).should_prune()
        elif job.is_trained:
            self._report(job, job.mean(job.rung - 1), job.rungs[-1])
            self.study.tell(job.number, job.mean(job.rung - 1))
            return "done"
        else:
            others = [other.scores for other in self.jobs() if other.number != job.number]
            pruned = self.is_worse(job.scores, others, job.rung)
        if pruned:
            if not job.is_trained and (values := job.values(job.rung)):  # the sampler learns from it too
                self._report(job, sum(values) / len(values), job.rungs[job.rung])
            self.study.tell(job.number, state=optuna.trial.TrialState.PRUNED)
        return "pruned" if pruned else "goes on"

    def _report(self, job: Job, value: float, step: int) -> None:
        if step not in self._optuna_trials()[job.number].intermediate_values:  # a process that ended may have told it
            self._trial(job.number).report(value, step)

    def is_worse(self, own: Scores, others: Sequence[Scores], rung: int) -> bool:
        """Whether the study's pruner ends a trial with these scores before the rung is complete."""
        settings = self.settings
        return is_worse(settings.pruner, own, others, rung, len(settings.rungs), settings.seeds)

    def fail(self, job: Job, reason: str, diverged: bool) -> None:
        """A training ended with an error; where its numbers were no longer finite, the values are to blame."""
        import optuna

        if not job.is_confirmation:
            self._trial(job.number).set_user_attr("error", reason)
            state = optuna.trial.TrialState.PRUNED if diverged else optuna.trial.TrialState.FAIL
            self.study.tell(job.number, state=state)

    def best_trials(self) -> list[optuna.trial.FrozenTrial]:
        """The trials that were trained to the end, the best first."""
        import optuna

        complete = self._optuna_trials(optuna.trial.TrialState.COMPLETE)
        return sorted(complete, key=lambda trial: -float(trial.value or 0.0))

    def best_confirmed(self) -> Job | None:
        """The one with the highest mean on fresh seeds."""
        trained = [job for job in self.confirmations() if job.is_trained]
        return max(trained, key=lambda job: job.interval().mean) if trained else None

    def best_preset(self) -> dict[str, Any] | None:
        """The table of the best confirmed trial, or without confirmation of the best one."""
        if (confirmed := self.best_confirmed()) is not None:
            return self._preset_table(confirmed.number)
        return self._preset_table(best[0].number) if (best := self.best_trials()) else None

    def counts(self) -> dict[str, int]:
        """Trials by what became of them."""
        states = [trial.state.name.lower() for trial in self._optuna_trials()]
        return {name: states.count(name) for name in ("complete", "pruned", "running", "fail")}

    def state_of(self, number: int) -> str:
        """What became of a trial: "complete", "pruned", "running", "fail"."""
        return self._optuna_trials()[number].state.name.lower()

    # ----------------------------------------------------------------------------------------------------------- Optuna

    def _optuna_trials(self, *states: optuna.trial.TrialState) -> list[optuna.trial.FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=states or None)

    def _trial(self, number: int) -> optuna.Trial:
        """The trial to report to: one that this process has drawn, or taken over from another."""
        import optuna

        return optuna.Trial(self.study, self._optuna_trials()[number]._trial_id)


def require_optuna() -> None:
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise MissingExtraError("optuna", "tune", "tuning") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)


@contextmanager
def _naming_damage(journal: Path) -> Iterator[None]:
    """Optuna checks nothing that its journal says: whatever it raises there is a damaged file."""
    try:
        yield
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise StudyError(
            f"{journal} is no journal of a study, or damaged ({type(error).__name__}: {printable(str(error))}); take "
            "out the lines that are, or begin a new study"
        ) from error


def _optuna_study(journal: Path, settings: Settings) -> optuna.Study:
    import optuna
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    path = str(journal)
    storage = optuna.storages.JournalStorage(JournalFileBackend(path, lock_obj=JournalFileOpenLock(path)))
    pruner: optuna.pruners.BasePruner = optuna.pruners.NopPruner()
    if len(settings.rungs) > 1:
        pruner = optuna.pruners.SuccessiveHalvingPruner(settings.rungs[0], settings.reduction)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.create_study(
            study_name=_NAME, storage=storage, direction="maximize", pruner=pruner, load_if_exists=True
        )


def _write(file: Path, settings: Settings, space: Space) -> None:
    table: Mapping[str, Any] = {**asdict(settings), "start": space.start.as_row(), "space": space.as_table()}
    write_whole(file, to_toml(table))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time decides what is next; the others wait for it."""
    while True:
        try:
            lock = RunLock(folder).acquire()
            break
        except RunLockedError:
            time.sleep(0.05)
    try:
        yield
    finally:
        lock.release()
