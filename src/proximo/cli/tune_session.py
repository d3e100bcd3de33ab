"""The trainings of a study: which is next, what becomes of a trial, and the result."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from proximo.cli.algorithms import algorithm_title
from proximo.cli.console import output, print_table, shown_path
from proximo.cli.runs import Run
from proximo.cli.trainings import FAILED, Training, TrainingSession
from proximo.cli.tune import session_words
from proximo.files.atomic import write_whole
from proximo.training.checkpoints import CheckpointFolder
from proximo.training.run_folder import to_toml
from proximo.tuning.job import Job
from proximo.tuning.picture import draw_study
from proximo.tuning.study import BEST_FILE, JOURNAL, PICTURE, Study

SECONDS_BETWEEN_ASKING = 2.0  # for work that another process may have left
DIVERGED = "NonFiniteError"


@dataclass
class SeedTraining(Training):
    """One seed of a job on its way to the next rung."""

    job: Job | None = None


class TuneSession(TrainingSession):
    """This process's share of a study."""

    heading = "trial"

    def __init__(self, study: Study, jobs: int) -> None:
        super().__init__(jobs)
        self.study = study
        self.active: list[Job] = []
        self.failure: str | None = None
        self._next_asking = 0.0

    def finish(self) -> int:
        settings = self.study.settings
        title = f"[bold]tuning {algorithm_title(settings.algo)} on {escape(settings.env)}[/]"
        rungs = ", ".join(f"{steps:,}" for steps in settings.rungs)
        output().print(
            f"{title}: {settings.trials} trials with {len(settings.seeds)} seeds, compared after {rungs} steps, "
            f"{self.jobs} training{'' if self.jobs == 1 else 's'} at a time, {escape(shown_path(self.study.path))}"
        )
        with ExitStack() as locks:
            locks.callback(self._release)
            self._run()
        if self.failure is not None:
            output().print(f"[red]{escape(self.failure)}[/]; mend what it says, then", soft_wrap=True)
            self._say_how_to_go_on()
            return FAILED
        if self.signal_number is not None:
            self._say_how_to_go_on()
            return 128 + self.signal_number
        self._report()
        return 0

    def _release(self) -> None:
        for job in self.active:
            job.release()

    def _say_how_to_go_on(self) -> None:
        path = shown_path(self.study.path)
        output().print(f"go on with: proximo tune --study {path}", markup=False, soft_wrap=True)

    # ------------------------------------------------------------------------------------------------------- scheduling

    def _advance(self) -> bool:
        for training in [each for each in self.trainings if isinstance(each, SeedTraining)]:
            ended = training.has_ended()
            if training.job is not None:
                folder = training.job.run_of(training.seed) if training.run is None else None
                training.look(None if folder is None else Run.open(folder.path))
            if ended:
                self._end(training)
        while self.signal_number is None and self.failure is None and self._running() < self.jobs:
            if not self._start_next():
                break
        if self._running() or self.signal_number is not None or self.failure is not None:
            return self._running() > 0
        return not self.study.is_over()  # another process is still at work, and may leave some to this one

    def _start_next(self) -> bool:
        """Start a training: of a trial that has none running, of a new one, else a further seed; False for none."""
        idle = next((job for job in self.active if not self._of(job)), None) or self._new_job()
        job = idle or next((job for job in self.active if self._startable(job)), None)
        if job is None:
            return False
        seeds = self._startable(job)
        if not seeds:
            return False
        self._start(job, seeds[0])
        return True

    def _new_job(self) -> Job | None:
        now = time.monotonic()
        if now < self._next_asking:
            return None
        job = self.study.next_job()
        if job is None:
            self._next_asking = now + SECONDS_BETWEEN_ASKING
            return None
        self.active.append(job)
        self._take_up_what_is_there(job)
        return job if job in self.active else None

    def _take_up_what_is_there(self, job: Job) -> None:
        """A job that another process left: runs that have reached the rung are not trained again."""
        if job.scores:
            self._decide(job)
        for seed in job.waiting_seeds() if job in self.active else ():
            result = job.result_of(seed)
            if result is not None and job in self.active:
                self._record(job, seed, *result)

    def _of(self, job: Job) -> list[Training]:
        return [each for each in self.trainings if isinstance(each, SeedTraining) and each.job is job]

    def _startable(self, job: Job) -> list[int]:
        running = {training.seed for training in self._of(job)}
        return [seed for seed in job.waiting_seeds() if seed not in running]

    def _start(self, job: Job, seed: int) -> None:
        steps = job.rungs[job.rung]
        log = job.folder / f"seed-{seed}.log"
        training = SeedTraining(f"{job.name}, seed {seed}", seed, steps, log, job=job)
        settings = self.study.settings
        pause = [] if steps >= job.rungs[-1] else ["--pause-at", str(steps)]
        folder = job.run_of(seed)
        if folder is not None and CheckpointFolder(folder.checkpoints).all():
            words = ["--resume", str(folder.path), *pause]
            training.look(Run.open(folder.path))
        else:
            if folder is not None:  # it ended before its first checkpoint
                folder.set_aside()
            words = [
                "--preset", str(job.preset_file), "--seed", str(seed), "--runs-dir", str(job.folder), *pause,
                "--eval-episodes", str(settings.eval_episodes), "--keep-checkpoints", "1", *session_words(settings),
            ]  # fmt: skip
        training.start(words, self.jobs)
        self.trainings.append(training)

    def _end(self, training: SeedTraining) -> None:
        self.trainings.remove(training)
        job, training.process = training.job, None
        if job is None or job not in self.active:  # pruned while this seed was under way
            return
        result = job.result_of(training.seed)
        if result is not None:
            self._record(job, training.seed, *result)
        elif self.signal_number is None:
            self._fail(job, training)

    def _record(self, job: Job, seed: int, score: float, steps: int) -> None:
        worst = "" if math.isfinite(score) else ", which counts as the worst"
        output().print(f"trial {job.name}, seed {seed}: {score:.1f} after {steps:,} steps{worst}", markup=False)
        job.record(seed, score, steps)
        self._decide(job)

    def _decide(self, job: Job) -> None:
        verdict = self.study.decide(job)
        if verdict != "goes on":
            self._finish_job(job, verdict)

    def _finish_job(self, job: Job, verdict: str) -> None:
        rung = max(job.scores) if job.scores else 0
        values = job.values(rung)
        mean = f", mean {sum(values) / len(values):.1f}" if values else ""
        output().print(f"trial {job.name}: {verdict}{mean}", markup=False)
        for training in self._of(job):
            if training.process is not None:
                training.process.terminate()  # it is waited for as one that has ended
        self.active.remove(job)
        job.release()

    def _fail(self, job: Job, training: Training) -> None:
        folder = job.run_of(training.seed)
        diverged = (
            folder is not None and folder.error.is_file() and DIVERGED in folder.error.read_text(errors="replace")
        )
        reason = training.reason()
        output().print(f"[red]trial {job.name}, seed {training.seed} failed:[/] {escape(reason)}", soft_wrap=True)
        output().print(f"  all that it printed: {escape(shown_path(training.log))}", soft_wrap=True)
        if job.number == 0 or job.is_confirmation:
            self.failure = "the confirmation failed" if job.is_confirmation else "the start cannot be trained"
            return
        self.study.fail(job, reason, diverged)
        self._finish_job(job, "diverged" if diverged else "failed")

    # ---------------------------------------------------------------------------------------------------------- display

    def _status(self) -> RenderableType:
        counts = self.study.counts()
        finished = counts["complete"] + counts["pruned"] + counts["fail"]
        told = [f"{finished} of {self.study.settings.trials} trials finished: {counts['complete']} trained to the end"]
        told += [f"{counts['pruned']} pruned"] if counts["pruned"] else []
        told += [f"{counts['fail']} failed"] if counts["fail"] else []
        if best := self.study.best_trials():
            told.append(f"the best so far {best[0].number} with {best[0].value:.1f}")
        return Lines(", ".join(told), *([super()._status()] if self.trainings else []))

    def _report(self) -> None:
        study = self.study
        best = study.best_preset()
        if best is not None:  # before anything is told of it: this is what the study was for
            write_whole(study.path / BEST_FILE, comment(study) + to_toml(best))
        print_table(trials_table(study))
        if study.confirmations():
            print_table(confirmation_table(study))
        trained, scratch, full = cost(study)
        output().print(
            f"{trained:,} steps trained; {scratch:,} if every rung had begun from nothing, {full:,} if all trials had "
            "been trained to the end"
        )
        if (verdict := verdict_of(study)) is not None:
            output().print(verdict, markup=False)
        if best is None:
            output().print("[yellow]no trial was trained to the end: there is no best one[/]")
            return
        picture = draw_study(study, study.path / PICTURE)
        output().print(f"picture: {shown_path(picture)}", markup=False, soft_wrap=True)
        output().print(f"all trials: optuna-dashboard {shown_path(study.path / JOURNAL)}", markup=False, soft_wrap=True)
        output().print(f"train it with: proximo train --preset {shown_path(study.path / BEST_FILE)}", markup=False,
                       soft_wrap=True)  # fmt: skip


def cost(study: Study) -> tuple[int, int, int]:
    """Steps of the search: trained, if rungs had begun from nothing, and if no trial had been ended early."""
    jobs = study.jobs()
    full = len(jobs) * len(study.settings.seeds) * study.settings.rungs[-1]
    return sum(job.steps_trained() for job in jobs), sum(job.steps_from_scratch() for job in jobs), full


def trials_table(study: Study, most: int = 10) -> Table:
    """The trials that came furthest, the best first."""
    jobs = sorted(
        (job for job in study.jobs() if job.scores), key=lambda job: (-max(job.scores), -job.mean(max(job.scores)))
    )
    table = Table(title=f"trials ({min(most, len(jobs))} of {len(jobs)})", title_justify="left", title_style="bold")
    for name in ("trial", "steps", "seeds", "mean return", "what became of it"):
        table.add_column(name, justify="left" if name.startswith("what") else "right")
    for job in jobs[:most]:
        rung = max(job.scores)
        state = {"complete": "trained to the end", "fail": "failed"}.get(
            study.state_of(job.number), study.state_of(job.number)
        )
        start = " (the start)" if job.number == 0 else ""
        table.add_row(
            f"{job.number}", f"{job.rungs[rung]:,}", str(len(job.values(rung))), f"{job.mean(rung):.1f}", state + start
        )
    return table


def confirmation_table(study: Study) -> Table:
    seeds = len(study.settings.fresh_seeds)
    table = Table(title=f"on {seeds} fresh seeds", title_justify="left", title_style="bold")
    for name in ("trial", "mean return", "95 % interval", "in the search"):
        table.add_column(name, justify="right")
    for job in sorted(study.confirmations(), key=lambda job: -job.interval().mean):
        interval = job.interval()
        searched = study.job(job.number).read()
        before = f"{searched.mean(max(searched.scores)):.1f}" if searched.scores else ""
        bounds = f"{interval.low:.1f} … {interval.high:.1f}" if seeds > 1 else ""
        name = f"{job.number} (the start)" if job.number == 0 else str(job.number)
        table.add_row(name, f"{interval.mean:.1f}", bounds, before)
    return table


def verdict_of(study: Study) -> str | None:
    """What the confirmation says of the search."""
    best = study.best_confirmed()
    if best is None:
        return None
    if best.number == 0:
        return "nothing is better than the start on fresh seeds: best.toml is the start"
    start = next(job for job in study.confirmations() if job.number == 0)
    gain = best.interval().mean - start.interval().mean
    apart = best.interval().low > start.interval().high
    sure = "their intervals are apart" if apart else "but their intervals overlap: more --fresh-seeds would tell"
    if len(study.settings.fresh_seeds) < 2:
        sure = "one seed says little: more --fresh-seeds would tell"
    return f"trial {best.number} is better than the start by {gain:.1f}; {sure}"


def comment(study: Study) -> str:
    """The head of the result's file: what was measured."""
    settings = study.settings
    lines = [f"{algorithm_title(settings.algo)} on {settings.env}, tuned over {settings.trials} trials."]
    if (best := study.best_confirmed()) is not None:
        start = next(job for job in study.confirmations() if job.number == 0)
        seeds = f"{len(settings.fresh_seeds)} fresh seeds"
        lines.append(f"Trial {best.number}: mean return {best.interval()} over {seeds}; the start: {start.interval()}.")
    return "".join(f"# {line}\n" for line in lines)
