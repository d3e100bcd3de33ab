"""``proximo train --seeds``: several trainings as several processes, with one live table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from proximo.analysis.evaluation import Evaluation
from proximo.cli.algorithms import algorithm_title
from proximo.cli.console import output, print_table, quiet_libraries, shown_path
from proximo.cli.group import Group
from proximo.cli.playing import comparison_table
from proximo.cli.runs import RunConfig
from proximo.cli.session import checkpoints_of, prepared
from proximo.cli.trainings import FAILED, Training, TrainingSession
from proximo.cores import usable_cores
from proximo.training.checkpoints import CheckpointFolder

if TYPE_CHECKING:
    from proximo.cli.train import Train


def train_group(arguments: Train, config: RunConfig, words: Sequence[str]) -> int:
    """Train with every seed into a new group folder; returns the exit code."""
    seeds = arguments.seeds or ()
    jobs = min(arguments.jobs or usable_cores(), len(seeds))
    with quiet_libraries(), prepared(arguments, config) as (env, _):
        checkpoints_of(arguments, env)  # what cannot be done is said once, and before a folder is made
    group = Group.create(arguments.runs_dir, f"{config.env}-{config.algo}", seeds, jobs, words)
    return GroupSession(group, config, jobs).finish()


def resume_group(group: Group, jobs: int | None) -> int:
    """Go on with each training of a group where it was; returns the exit code."""
    from proximo.cli.train import parse_arguments, run_config

    runs = group.runs()
    config = next(iter(runs.values())).config if runs else run_config(parse_arguments(group.words))
    return GroupSession(group, config, jobs or group.jobs).finish()


class GroupSession(TrainingSession):
    """The trainings of a group, some of them at a time."""

    heading = "seed"

    def __init__(self, group: Group, config: RunConfig, jobs: int) -> None:
        super().__init__(jobs)
        self.group = group
        self.config = config
        steps = config.preset.n_timesteps
        self.trainings = [Training(str(seed), seed, steps, group.log(seed)) for seed in group.seeds]

    def finish(self) -> int:
        self._take_up_what_is_there()
        title = f"[bold]{algorithm_title(self.config.algo)} on {escape(self.config.env)}[/]"
        output().print(
            f"{title}: {len(self.trainings)} seeds, {self.jobs} at a time, {escape(shown_path(self.group.path))}"
        )
        self._run()
        self._report()
        if self.signal_number is not None:
            return 128 + self.signal_number
        if any(training.state == "failed" for training in self.trainings):
            return FAILED
        return max(training.code or 0 for training in self.trainings)

    def _take_up_what_is_there(self) -> None:
        """In a resumed group: trainings that are over stay so."""
        for seed, run in self.group.runs().items():
            for training in self.trainings:
                if training.seed == seed:
                    training.look(run)
                    if run.is_over():
                        training.state, training.code = "done", 0

    def _advance(self) -> bool:
        running = [training for training in self.trainings if training.process is not None]
        runs = self.group.runs() if any(training.run is None for training in running) else {}
        for training in running:
            ended = training.has_ended()
            training.look(runs.get(training.seed))
            if ended:
                self._end(training)
        for training in self.trainings:
            if self.signal_number is None and training.state == "waiting" and self._running() < self.jobs:
                self._start(training)
        return self._running() > 0

    def _start(self, training: Training) -> None:
        words = [*self.group.words, "--seed", str(training.seed), "--runs-dir", str(self.group.path)]
        if training.run is not None:
            if CheckpointFolder(training.run.folder.checkpoints).all():
                words = ["--resume", str(training.run.folder.path)]
            else:  # it has nothing to go on from
                training.run.folder.set_aside()
                training.run, training.latest = None, {}
        training.start(words, self.jobs)

    def _end(self, training: Training) -> None:
        training.process = None
        if training.run is not None and training.run.folder.read_result() is not None:
            # with code 1 where the return of --until was not reached
            training.state = "done" if training.run.is_over() else "paused"
        elif self.signal_number is not None:
            training.state = "stopped"
        else:
            training.state = "failed"

    def _report(self) -> None:
        runs, evaluations = [], []
        for training in self.trainings:
            if training.state == "failed":
                output().print(f"[red]seed {training.seed} failed:[/] {escape(training.reason())}", soft_wrap=True)
                output().print(f"  all that it printed: {escape(shown_path(training.log))}", soft_wrap=True)
            result = None if training.run is None else training.run.folder.read_result()
            if training.run is not None and result is not None and result["evaluation"] is not None:
                runs.append(training.run)
                evaluations.append(Evaluation(**result["evaluation"]))
        if evaluations:
            print_table(comparison_table(runs, evaluations))
        if any(training.state != "done" for training in self.trainings):
            path = shown_path(self.group.path)
            output().print(f"go on with: proximo train --resume {path}", markup=False, soft_wrap=True)
