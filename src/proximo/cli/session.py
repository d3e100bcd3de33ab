"""One training of the command line: environments, model, live progress, evaluation, pictures."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from rich.console import Console
from rich.markup import escape

from proximo.agents.on_policy import OnPolicyAlgorithm
from proximo.agents.ppg import PPG
from proximo.analysis.evaluation import Evaluation
from proximo.cli.algorithms import (
    algorithm_class,
    algorithm_title,
    check_arguments,
    default_arguments,
    fitting_policy,
    known_arguments,
    make_model,
)
from proximo.cli.console import (
    ForeignOutput,
    errors,
    listening_to_warnings,
    output,
    print_table,
    quiet_libraries,
    shown_path,
)
from proximo.cli.during import EVALUATION_SEED, Pause, PeriodicEvaluation, PeriodicFilms
from proximo.cli.extension import extended, init_from, total_steps
from proximo.cli.failures import keep_traceback, raised_in_environment
from proximo.cli.launching import interrupted_run, is_restarted
from proximo.cli.playing import FILM_SECONDS, check_filming, evaluate_run, evaluation_table, film_run
from proximo.cli.plot import draw_curve
from proximo.cli.runs import Run, RunConfig
from proximo.cli.train import WORKER_FLAGS, flags_of_workers
from proximo.cli.workers import Decision, decide
from proximo.distributed import is_first, join
from proximo.envs import VecEnv
from proximo.errors import EnvWorkerError, ProximoError
from proximo.files.atomic import remove_leftovers
from proximo.rollout.phase import in_gigabytes
from proximo.training.callbacks import ProgressBarCallback
from proximo.training.checkpoints import CheckpointFolder, PeriodicCheckpoints
from proximo.training.journal import Journal
from proximo.training.log_formats import require_tensorboard
from proximo.training.loggers import Ending, Logger
from proximo.training.run_folder import to_toml
from proximo.training.run_lock import RunLock, RunLockedError
from proximo.training.signals import StopOnSignal
from proximo.training.trackers import check_tracker
from proximo.zoo import Preset, make_preset_env
from proximo.zoo.presets import without_preset

if TYPE_CHECKING:
    from proximo.cli.train import Train

TIMES_THE_STEPS = 5
"""A training ``--until`` a return sees at most this many times its steps."""
RETURN_NOT_REACHED = 1
Value = TypeVar("Value")


def train(arguments: Train, config: RunConfig) -> int:
    """Train what ``config`` describes into a new run folder; returns the exit code.

    All processes of a group do this; only the first has the folder, writes and prints.
    """
    output().quiet = not is_first()
    if is_restarted() and (interrupted := from_first(lambda: interrupted_run(arguments.runs_dir))) is not None:
        folder = CheckpointFolder(interrupted.folder.checkpoints)
        if from_first(lambda: bool(folder.all())):
            as_it_was = {"workers": interrupted.config.session.get("workers", arguments.workers)}
            return resume(interrupted.folder.path, replace(arguments, steps=None, **as_it_was), interrupted)
    arguments, config, decision = with_workers(arguments, config)
    with quiet_libraries() as printed, prepared(arguments, config) as (env, model):
        if decision is not None:
            output().print(str(decision), highlight=False)
        checkpoints = checkpoints_of(arguments, env)
        policy = config.preset.policy or fitting_policy(config.algo, env)
        completed = config.completed(default_arguments(type(model)), policy)
        run = from_first(lambda: Run.create(arguments.runs_dir, completed))
        with locked(run) as lock:
            return Session(arguments, run, model, printed, checkpoints, lock=lock).finish()


def with_workers(arguments: Train, config: RunConfig) -> tuple[Train, RunConfig, Decision | None]:
    """With ``--workers auto`` decided: the first process decides for all, and the run's configuration has it.

    A resumed run keeps what was decided.
    """
    if arguments.workers != "auto":
        return arguments, config, None
    environments = own_environments(config.preset.n_envs)
    with quiet_libraries():
        decision = from_first(lambda: decide(config, environments, flags_of_workers(arguments)))
    session = {**config.session, "workers": decision.workers}
    return replace(arguments, workers=decision.workers), replace(config, session=session), decision


@contextmanager
def prepared(arguments: Train, config: RunConfig) -> Iterator[tuple[VecEnv, OnPolicyAlgorithm]]:
    """Environments and model; whatever can be refused is refused here, before a folder is made."""
    check_device(arguments.device)
    check_outputs(arguments)
    env = make_environments(config, arguments)
    try:
        if arguments.video or arguments.record_every:
            check_filming(config)
        model = make_model(
            config.algo, config.preset, env, seed=config.seed, device=arguments.device, backend=arguments.backend
        )
        if arguments.init_from is not None:
            init_from(model, arguments.init_from)
        tell_of_long_intervals(arguments, config.preset.n_timesteps, model.n_steps * config.preset.n_envs)
        yield env, model
    finally:
        env.close()


def tell_of_long_intervals(arguments: Train, steps: int, rollout: int) -> None:
    """Warn of what was asked for every so many steps, and never comes, since a training is shorter."""
    trained = -(-steps // rollout) * rollout
    if arguments.until is not None:
        return  # which may train on
    for name in ("eval_every", "record_every"):
        every = getattr(arguments, name)
        if every is not None and every > trained:
            warnings.warn(
                f"--{name.replace('_', '-')} is {every:,}, but the training ends after {trained:,} steps: it never "
                "comes to that; give fewer",
                stacklevel=2,
            )


def resume(path: Path, arguments: Train, run: Run) -> int:
    """Go on with a run from its newest checkpoint, or from the one that ``path`` names; returns the exit code."""
    output().quiet = not is_first()
    with locked(run, arguments.take_over) as lock:  # before the checkpoints are looked at
        return _resume(path, arguments, run, lock)


@contextmanager
def locked(run: Run, take_over: bool = False) -> Iterator[RunLock | None]:
    """The lock of a run's folder, which the first of several processes holds for all."""
    if not is_first():
        yield None
        return
    with RunLock(run.folder.path, take_over) as lock:
        yield lock


def _resume(path: Path, arguments: Train, run: Run, lock: RunLock | None) -> int:
    max_bytes = int(arguments.max_checkpoint_gigabytes * 1e9)
    folder = CheckpointFolder(run.folder.checkpoints, max_bytes=max_bytes)
    checkpoint = from_first(lambda: folder.checked(path) if path.is_file() else folder.newest())
    check_device(arguments.device)
    check_outputs(arguments)
    if is_first():
        remove_leftovers(run.folder.path)
    with quiet_libraries() as printed:
        env = make_environments(run.config, arguments)
        try:
            if arguments.video or arguments.record_every:
                check_filming(run.config)
            model = algorithm_class(arguments.algo).load(
                checkpoint, env=env, device=arguments.device, max_bytes=max_bytes
            )
            model.strict_resume = arguments.strict
            output().print(f"resuming from {escape(shown_path(checkpoint))}")
            if arguments.steps is not None:
                steps = total_steps(run, model, arguments.steps)
                run = from_first(lambda: extended(run, model, steps))
            checkpoints = checkpoints_of(arguments, env)
            return Session(arguments, run, model, printed, checkpoints, resumed=True, lock=lock).finish()
        finally:
            env.close()


def print_config(arguments: Train, config: RunConfig) -> int:
    """Show the configuration that the run folder would have, and train nothing."""
    agent = algorithm_class(config.algo)
    policy = config.preset.policy
    if policy is None:
        with (
            quiet_libraries(),
            closing(make_environments(replace(config, preset=config.preset.changed(n_envs=1)), arguments)) as env,
        ):
            policy = fitting_policy(config.algo, env)
    settings = check_arguments(agent, policy, config.preset)
    agent.config_class(**{name: value for name, value in settings.items() if name in agent.config_class.names()})
    if arguments.preset == "auto":
        tell_of_missing_preset(config, errors())
    if arguments.seeds is not None:
        output().print(f"# seeds {', '.join(map(str, arguments.seeds))}", markup=False)
    table = config.completed(default_arguments(agent), policy).as_table()
    output().print(to_toml(table), markup=False, end="")
    defaults = {**Preset(name="").settings(), **known_arguments(agent)}
    tell_of_defaults({name: value for name, value in defaults.items() if table.get(name) is None})
    return 0


def tell_of_defaults(defaults: Mapping[str, Any]) -> None:
    """Name what a configuration may say too, and does not."""
    empty = [name for name, value in defaults.items() if value is None or value == () or value == {}]
    set_to = [f"{name} {value}" for name, value in defaults.items() if name not in empty]
    errors().print(f"at their defaults: {', '.join(set_to)}; not set: {', '.join(empty)}", style="dim", markup=False)


def tell_of_missing_preset(config: RunConfig, console: Console) -> None:
    if config.preset.name == "default":
        console.print(f"[yellow]no preset:[/] {escape(without_preset(config.algo, config.env))}", soft_wrap=True)


def from_first(find: Callable[[], Value]) -> Value:
    """What the first process finds, for all that train together."""
    group = join()
    if group is None:
        return find()
    found = find() if group.rank == 0 else None
    return group.first(found, "starting")  # type: ignore[return-value]


def own_environments(total: int) -> int:
    """How many of all environments this process makes: all, or its share where processes train together."""
    group = join()
    if group is None:
        return total
    if total < group.world_size:
        raise ValueError(f"{total} environments for {group.world_size} processes: each steps at least one; give --envs")
    return group.own_part(total)


def checkpoints_of(arguments: Train, env: VecEnv) -> dict[str, Any] | None:
    """The arguments of ``PeriodicCheckpoints`` that the flags ask for; None for no checkpoints."""
    if arguments.checkpoint_mode == "off":
        return None
    if arguments.checkpoint_mode == "state" and not env.has_state():
        env.get_state()  # an error that says which environment it is, and what to do
    return {
        "every_steps": arguments.checkpoint_every,
        "every_minutes": arguments.checkpoint_minutes,
        "keep_last": arguments.keep_checkpoints,
        "keep_best": arguments.eval_every is None,  # evaluations know better than training which is the best
        "boundary": arguments.checkpoint_mode == "boundary",
        "exact": arguments.checkpoint_mode == "state",
    }


def check_device(device: str) -> None:
    """Refuse a device that PyTorch does not know or this machine does not have; CUDA may become the CPU, not silently.

    AssertionError and ImportError are PyTorch's words for a device that it was built without.
    """
    if device == "auto":
        return
    try:
        if torch.device(device).type == "cuda" and not torch.cuda.is_available():
            warnings.warn(f"--device is {device!r}, but PyTorch finds no CUDA here: using the CPU", stacklevel=2)
            return
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        raise ValueError(
            f"--device is {device!r}, no device of PyTorch on this machine; expected auto, cpu, cuda or cuda:1"
        ) from error


def check_outputs(arguments: Train) -> None:
    """Refuse what a run could not be written to."""
    if arguments.runs_dir.is_file():
        raise ValueError(f"--runs-dir is {arguments.runs_dir}, which is a file; expected a folder")
    if is_first():
        for name in trackers_of(arguments):
            require_tensorboard() if name == "tensorboard" else check_tracker(name)


def trackers_of(arguments: Train) -> list[str]:
    """The names of the trackers, each once."""
    return list(dict.fromkeys([*arguments.track, *(["tensorboard"] if arguments.tensorboard else [])]))


def make_environments(config: RunConfig, arguments: Train) -> VecEnv:
    count = own_environments(config.preset.n_envs)
    workers: dict[str, Any] | bool = False
    if arguments.workers not in (0, "auto"):
        given = {name: value for name in WORKER_FLAGS if (value := getattr(arguments, name)) is not None}
        workers = {"on_env_failure": arguments.on_env_failure, **given}
        if isinstance(arguments.workers, int):
            workers["envs_per_worker"] = -(-count // arguments.workers)
    return make_preset_env(config.preset, config.env, n_envs=count, seed=config.seed, workers=workers)


class Interrupted(Exception):
    """The training was ended by a signal; what there is has been saved."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class Session:
    """A model, its run folder, and what the user asked to be done with them."""

    def __init__(
        self,
        arguments: Train,
        run: Run,
        model: OnPolicyAlgorithm,
        printed: ForeignOutput,
        checkpoints: dict[str, Any] | None = None,
        resumed: bool = False,
        *,
        lock: RunLock | None,
    ) -> None:
        self.lock = lock
        self.arguments = arguments
        self.run = run
        self.model = model
        self.printed = printed
        self.checkpoints = None if checkpoints is None else PeriodicCheckpoints(run.folder.checkpoints, **checkpoints)
        self.pause = (
            None
            if arguments.pause_at is None or self.checkpoints is None
            else Pause(self.checkpoints, arguments.pause_at)
        )
        self.resumed = resumed
        self.steps_before = model.num_timesteps if resumed else 0
        self.training_seconds = 0.0
        self.journal = Journal(run.folder.journal if model.rank == 0 else Path(os.devnull))
        every, episodes = arguments.eval_every, arguments.eval_episodes
        self.evaluation = None if every is None else PeriodicEvaluation(run, every, episodes, self.journal)
        self.films = (
            None if arguments.record_every is None else PeriodicFilms(run, arguments.record_every, self.journal)
        )

    def finish(self) -> int:
        try:
            with self.journal, listening_to_warnings(self.journal.warn):
                return self._finish()
        finally:
            if self.model.rank == 0:
                self.printed.save(self.run.folder.printed)
            if self.evaluation is not None:
                self.evaluation.eval_env.close()

    def _finish(self) -> int:
        self._introduce()
        logger = self._make_logger()
        self.model.set_logger(logger)
        ending: Ending = "failed"
        try:
            evaluation = self._train_or_advise()
            self._conclude(evaluation, logger)
            ending = "finished"
            return 0 if self._is_reached(evaluation) else RETURN_NOT_REACHED
        except Interrupted as interruption:
            self.journal.ending = ending = "interrupted"
            output().print("[yellow]interrupted:[/] the model is saved as it is")
            if advice := self._how_to_go_on():
                output().print(advice, markup=False, soft_wrap=True)
            self._list_files()
            return 128 + interruption.signal_number
        finally:
            logger.close(ending)

    def _train_or_advise(self) -> Evaluation | None:
        """Train; an error that may not come again says how to go on."""
        try:
            return self._train_until_reached()
        except Interrupted:
            raise
        except Exception as error:
            comes_again = not isinstance(error, EnvWorkerError | OSError) and not raised_in_environment(error)  # a NaN
            if not comes_again and (advice := self._how_to_go_on()):
                error.add_note(advice)
            raise

    def _make_logger(self) -> Logger:
        if self.model.rank != 0:
            return Logger(None, [])
        logger = self.run.make_logger(trackers_of(self.arguments), resume=self.resumed)
        config = self.run.folder.read_config()  # as a resumed run has it too: TOML knows no tuples
        for tracker in logger.trackers:
            tracker.write_config(config)
        return logger

    def _conclude(self, evaluation: Evaluation | None, logger: Logger) -> None:
        """Show, write and film what came out."""
        if evaluation is not None:
            print_table(evaluation_table(evaluation, title="evaluation"))
        first, steps = self.model.rank == 0, self.model.num_timesteps
        if first:
            self._write_result(evaluation)
        for tracker in logger.trackers:
            tracker.write_model(self.run.folder.model)
            if evaluation is not None:
                mean, low, high = evaluation.interval
                tracker.write_result(
                    {"evaluation/mean": mean, "evaluation/interval_low": low, "evaluation/interval_high": high}, steps
                )
        if self.pause is not None and steps < self.model._total_timesteps:
            self.journal.ending = "paused"
            reached = f"{steps:,} of {self.model._total_timesteps:,} steps"
            output().print(f"[yellow]paused:[/] {reached}")
            output().print(self._how_to_go_on(), markup=False, soft_wrap=True)
        try:
            if self.arguments.video and first:
                with self.journal.spending("film"):
                    film = film_run(
                        self.run, self.run.folder.video("gif"), seconds=FILM_SECONDS, seed=self.run.config.seed
                    )
                for tracker in logger.trackers:
                    tracker.write_film("video", film, steps)
        finally:  # rendering is foreign code and may fail; the rest is there all the same
            self._list_files()

    def _write_result(self, evaluation: Evaluation | None) -> None:
        result = {"steps": self.model.num_timesteps, "seconds": round(self.training_seconds, 1)}
        self.run.folder.write_result({**result, "evaluation": None if evaluation is None else asdict(evaluation)})

    def _train_until_reached(self) -> Evaluation | None:
        steps = self.run.config.preset.n_timesteps
        if self.resumed:
            steps_left = total_steps(self.run, self.model, self.arguments.steps) - self.model.num_timesteps
            if steps_left <= 0:
                output().print(f"nothing is left to train: the run is at its last step, {self.model.num_timesteps:,}")
            self._learn(steps_left, continued=True)
        else:
            self._learn(steps, continued=False)
        evaluation = self._evaluate()
        while not self._is_reached(evaluation) and self.model.num_timesteps < TIMES_THE_STEPS * steps:
            output().print(f"[yellow]{escape(str(evaluation))} is below {self.arguments.until:g}: training on[/]")
            self._learn(max(steps // 2, 1), continued=True)
            evaluation = self._evaluate()
        return evaluation

    def _is_reached(self, evaluation: Evaluation | None) -> bool:
        return self.arguments.until is None or evaluation is None or evaluation.mean >= self.arguments.until

    def _learn(self, steps: int, continued: bool) -> None:
        """Train and save; a signal ends the training but not the saving."""
        start = time.monotonic()
        with self._stop_on_signal() as stop:
            progress = ProgressBarCallback(output()) if steps > 0 else None
            lock = None if self.lock is None else self.lock.callback()
            # films before checkpoints: a checkpoint knows what has been filmed, and a resume does not film it again
            callbacks = (lock, self.journal, self.films, self.pause, self.checkpoints, self.evaluation, stop, progress)
            try:
                self.model.learn(
                    steps,
                    callback=[callback for callback in callbacks if callback is not None],
                    reset_num_timesteps=not continued,
                    on_non_finite=self.arguments.on_non_finite,
                )
            except RunLockedError:  # the folder is another process's now
                raise
            except Exception as error:
                keep_traceback(error, self.run.folder)
                if isinstance(error, ProximoError) or raised_in_environment(error):
                    self.model.save(self.run.folder.model)  # a failed environment, a NaN: the weights from before it
                raise
            self.training_seconds += time.monotonic() - start
            self.model.save(self.run.folder.model)
            if self.model.rank == 0:
                draw_curve(self.run)
            if stop.signal_number is not None:
                raise Interrupted(stop.signal_number)

    def _stop_on_signal(self) -> StopOnSignal:
        seconds = self.arguments.stop_seconds
        if self.evaluation is None:
            return StopOnSignal(self.checkpoints, seconds_to_end=seconds)
        stop = StopOnSignal(self.checkpoints, self.evaluation.is_due_in_rollout, seconds)
        self.evaluation.is_ending = lambda: stop.signal_number is not None
        return stop

    def _evaluate(self) -> Evaluation | None:
        if self.arguments.eval_episodes < 1:
            return None
        seed = self.run.config.seed + EVALUATION_SEED
        with self.journal.spending("evaluation"):
            return evaluate_run(self.run, self.arguments.eval_episodes, seed=seed, device=self.arguments.device)

    def _introduce(self) -> None:
        config, preset = self.run.config, self.run.config.preset
        title = f"[bold]{algorithm_title(config.algo)} on {escape(config.env)}[/]"
        environments = f"{preset.n_envs} environment{'s' if preset.n_envs > 1 else ''}"
        if self.model.world_size > 1:
            environments += f" in {self.model.world_size} processes"
        task = f"{preset.n_timesteps:,} steps, {environments}, preset {preset.name}, seed {config.seed}"
        output().print(f"{title}: {task}, device {self.model.device}, backend {self.model.backend}")
        if self.arguments.preset == "auto" and not self.resumed:
            tell_of_missing_preset(config, output())
        if isinstance(self.model, PPG):
            output().print(f"auxiliary buffer: {in_gigabytes(self.model.auxiliary_bytes)}")

    def _how_to_go_on(self) -> str:
        """The command that resumes this run, if there is a checkpoint to resume from."""
        if self.model.rank != 0 or not CheckpointFolder(self.run.folder.checkpoints).all():
            return ""
        return f"go on with: proximo train --resume {shown_path(self.run.folder.path)}"

    def _list_files(self) -> None:
        if self.model.rank != 0:
            return
        self.printed.save(self.run.folder.printed)
        steps, seconds = self.model.num_timesteps, f"{self.training_seconds:.1f} s"
        new_steps = f"{steps - self.steps_before:,} of them now in {seconds}"
        trained = f"{steps:,} steps, {new_steps}" if self.resumed else f"{steps:,} steps in {seconds}"
        folder = f"[bold]{escape(shown_path(self.run.folder.path))}[/]"
        rows = [("trained", trained), ("run folder", folder)]
        rows += [(f"  {title}", escape(names)) for title, names in self.run.contents()]
        width = max(len(title) for title, _ in rows)
        for title, text in rows:
            output().print(f"{title:<{width}}  {text}", soft_wrap=True)  # no table: a path must be whole, to be copied
