"""The run of a host's training: its folder, logs, evaluations, checkpoints and signals."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proximo.agents.hosted import Hosted
from proximo.agents.on_policy import MaybeCallback
from proximo.analysis.evaluation import evaluate
from proximo.envs import DummyVecEnv, SubprocVecEnv, VecEnv, as_vec_env
from proximo.errors import EnvironmentStateError, ModelFileError
from proximo.persistence import model_files
from proximo.training.callbacks import BaseCallback, as_callback
from proximo.training.checkpoints import CheckpointFolder, PeriodicCheckpoints
from proximo.training.loggers import Ending, announce, configure
from proximo.training.run_folder import RunFolder, file_name, make_unique_folder
from proximo.training.signals import StopOnSignal

EPISODES = 10  # whose mean return and length are logged


class StepFolder(CheckpointFolder):
    """Model files named ``{prefix}_{steps}.zip``."""

    def of(self, steps: int) -> Path:
        return self.path / f"{self.prefix}_{steps}.zip"

    def steps_of(self, path: Path) -> int:
        steps = path.stem.removeprefix(f"{self.prefix}_")
        return int(steps) if steps.isdigit() else -1


class RunCheckpoints(PeriodicCheckpoints):
    """A checkpoint every so many updates; all are kept."""

    def __init__(self, folder: StepFolder, every_updates: int) -> None:
        super().__init__(folder, every_steps=1, keep_last=sys.maxsize, keep_best=False)
        self.every_updates = every_updates

    def _init_callback(self) -> None:
        self._save_asked = self._stop_asked = False  # whether environments have state is found out when saving

    def _is_due(self) -> bool:
        model = self.model
        due: bool = model._iteration % self.every_updates == 0 and 0 < model.num_timesteps < model._total_timesteps
        return due

    def save(self) -> Path:
        path = self.folder.of(self.model.num_timesteps)
        save_with_state(self.model, path)
        return path


def save_with_state(model: Hosted, path: str | Path) -> None:
    """Write a checkpoint, from which the training goes on exactly; a model file if environments have no state."""
    try:
        state = model.training_state()
    except EnvironmentStateError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)  # save() would warn that it is missing
        model.save(path)
    else:
        model.save_checkpoint(path, state)


class BeforeRollouts(BaseCallback):
    """Calls a function before every so many rollouts, the first included."""

    def __init__(self, every: int, function: Callable[[], object]) -> None:
        super().__init__()
        self.every, self.function = every, function

    def _between_iterations(self) -> bool:
        if self.model._iteration % self.every == 0 and self.model.num_timesteps < self.model._total_timesteps:
            self.function()
        return True


class HostRun:
    """A host that trains, evaluates, saves and loads ``model``, which it makes in :meth:`build`."""

    model: Hosted
    tag: str  # files go to logs/{tag}/{time}
    seed: int
    work_dir: Path | None = None
    global_step = 0
    global_episode = 0
    _seconds = 0.0  # spent in earlier trainings
    _running = False
    _annealing = False

    def build(self) -> None:
        """Make the model, once."""
        raise NotImplementedError(f"{type(self).__name__} must make its model in build()")

    def folder(self) -> StepFolder:
        """Where the run's model files go; the folder is made when it is first asked for."""
        if self.work_dir is None:
            stamp = datetime.now().strftime("%Y-%m-%d-%H-%M-%S")
            self.work_dir = make_unique_folder(Path("logs").resolve() / file_name(self.tag) / stamp)
        return StepFolder(self.work_dir / "model", "agent")

    @property
    def seconds(self) -> float:
        """Spent in training."""
        return self._seconds + ((time.monotonic_ns() - self.model._started) / 1e9 if self._running else 0.0)

    def run(
        self,
        updates: int,
        *,
        save_every: int = 100,
        log_every: int = 1,
        after_log: Callable[[], None] | None = None,
        evaluate: Callable[[], object] | None = None,
        evaluate_every: int = 100,
        callback: MaybeCallback = None,
        log_formats: Sequence[str] = ("csv", "json"),
        **options: Any,
    ) -> None:
        """Train for a number of updates, on from where the model is; ``options`` are those of ``learn``.

        SIGTERM and SIGINT end it with a checkpoint and then do what they are for: SystemExit and KeyboardInterrupt.
        """
        model = self.model
        model.set_logger(configure(self.folder().path.parent, list(log_formats)))
        model.log_every, model.after_log = log_every, after_log
        checkpoints = RunCheckpoints(self.folder(), save_every)
        callbacks: list[BaseCallback] = [as_callback(callback), checkpoints]
        if evaluate is not None:
            callbacks.append(BeforeRollouts(evaluate_every, evaluate))
        stop = StopOnSignal(checkpoints if model.env is not None and model.env.has_state() else None)
        ending: Ending = "failed"
        try:
            model._started, self._running = time.monotonic_ns(), True
            with _receiving_signals(stop):
                steps = updates * model.n_steps * model.n_envs
                model.learn(steps, [*callbacks, stop], log_interval=1, reset_num_timesteps=False, **options)
            ending = "finished" if stop.signal_number is None else "interrupted"
        finally:
            self._seconds, self._running = self.seconds, False
            model.logger.close(ending)
            model.set_logger(configure(None, []))  # until the next run's
        if stop.signal_number is not None:
            self._end_by_signal(stop, checkpoints)
        self._describe_run(checkpoints.save())

    def _describe_run(self, newest: Path) -> None:
        """Let `proximo evaluate` and `watch` know the run, if its environments can be made again by their id."""
        model, run = self.model, RunFolder(newest.parent.parent)
        shutil.copyfile(newest, run.model)
        if (made := id_and_arguments(model.env)) is None:
            return
        numbers = {k: v for k, v in model.configuration().as_dict().items() if isinstance(v, bool | int | float)}
        run.write_config(
            {"env": made[0], "algo": model.run_name.lower(), "seed": self.seed, "preset": "none"}
            | {"n_envs": model.n_envs, "n_timesteps": model.num_timesteps, **numbers}
            | ({"env_kwargs": made[1]} if made[1] else {})
        )

    def _end_by_signal(self, stop: StopOnSignal, checkpoints: RunCheckpoints) -> None:
        if stop.checkpoints is None:
            checkpoints.save()
        name = signal.Signals(stop.exit_code - 128).name
        announce(f"[{self.tag}] stopped by {name}; load() goes on from {checkpoints.folder.all()[-1]}")
        if stop.signal_number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(stop.exit_code)

    def play(self, env: Any, episodes: int) -> dict[str, float]:
        """Play episodes with the likeliest actions, always from the same seed."""
        self.build()
        env = as_vec_env(env)
        env.seed(self.seed)
        network = self.model.policy
        was_training = network.training
        evaluation = evaluate(network, env, episodes, warn=False)
        network.train(was_training)
        if env is self.model.env:  # it was left in the middle of an episode that is not the collector's
            self.model._required_collector().reset()
        return {
            "step": self.global_step,
            "episode": self.global_episode,
            "episode_length": float(np.mean(evaluation.episode_lengths)),
            "episode_reward": evaluation.mean,
            "total_time": self.seconds,
        }

    def progress(self) -> dict[str, float]:
        """Where the training is: steps, the latest episodes, and time."""
        results: dict[str, float] = {"step": self.global_step, "episode": self.global_episode}
        if episodes := self.model.ep_info_buffer:
            results["episode_length"] = float(np.mean([episode["l"] for episode in episodes]))
            results["episode_reward"] = float(np.mean([episode["r"] for episode in episodes]))
        return results | {"fps": self.global_step / max(self.seconds, 1e-9), "total_time": self.seconds}

    def set_rates(
        self, optimizers: Mapping[str, torch.optim.Optimizer], initial: Mapping[str, Sequence[float]]
    ) -> None:
        """The learning rates of this update: as they were, or, when annealing, falling to 0 within the training."""
        share, model = 1.0, self.model
        if self._annealing:
            done = model.num_timesteps - model.n_steps * model.n_envs - model._num_timesteps_at_start
            share -= done / (model._total_timesteps - model._num_timesteps_at_start)
        for name, optimizer in optimizers.items():
            for group, rate in zip(optimizer.param_groups, initial[name], strict=True):
                group["lr"] = share * rate

    @property
    def generator(self) -> np.random.Generator:
        """Draws exploration noise and minibatches."""
        self.build()
        return self.model.generator

    @property
    def backend(self) -> str:
        """Which backend runs the policy, and why: ``"fused"`` or ``"torch: features extractor is MnihCnnEncoder"``."""
        self.build()
        return self.model.backend

    def take_weights(self, path: str | Path) -> None:
        """The weights of a model file with the units of their value, and nothing else of it."""
        parameters, units = model_files.read_parameters(path, self.model)
        self.model._use_units(units)
        self.model.policy.load_state_dict(parameters["policy"])

    def save(self, path: str | Path | None = None) -> Path:
        """Write a model file, a checkpoint where the environments can tell their state; returns where.

        Without a path it is ``model/agent_{step}.zip`` in the run's folder. :meth:`load` goes on from it, and
        ``proximo.PPO.load(path).predict(observation)`` plays it (``proximo.PPG`` and ``proximo.DAAC`` theirs).
        """
        self.build()
        target = self.folder().of(self.global_step) if path is None else Path(path)
        target = target if target.suffix else target.with_suffix(".zip")
        save_with_state(self.model, target)
        return target

    def load(self, path: str | Path) -> None:
        """Go on from a file of :meth:`save`, in an agent made with the same arguments; nothing in it is executed."""
        self.build()
        try:
            model_files.load_into(self.model, path)
        except ModelFileError as error:
            raise ModelFileError(
                f"{path} does not fit this {type(self).__name__} ({error}); load it into one made with the arguments "
                "it was saved with"
            ) from error
        self.global_step = self.model.num_timesteps


def id_and_arguments(env: VecEnv | None) -> tuple[str, dict[str, Any]] | None:
    """The id that gymnasium makes the environments by, and its arguments; None where that would not be all."""
    if not isinstance(env, DummyVecEnv | SubprocVecEnv):
        return None
    spec = env.get_attr("spec")[0]
    if spec is None or any(wrapper.name != "Monitor" for wrapper in spec.additional_wrappers):
        return None
    plain = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
    return (spec.id, plain) if all(isinstance(value, bool | int | float | str) for value in plain.values()) else None


def rates_of(optimizers: Mapping[str, torch.optim.Optimizer]) -> dict[str, list[float]]:
    """The learning rates of optimisers, one per group."""
    return {name: [group["lr"] for group in optimizer.param_groups] for name, optimizer in optimizers.items()}


@contextmanager
def _receiving_signals(stop: StopOnSignal) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # Python hands signals to that one alone
        yield
        return
    with stop:
        yield
