"""Algorithms of the library that train somebody else's network and storage, in somebody else's way.

An agent of another library's shape (rllte's agents, Hsuanwu's trainer) is the *host*: it makes the network and the
storage, and says how one update goes. Loop, collector, callbacks, logs, checkpoints and files are the library's.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch

from proximo.agents import daac, ppg, ppo
from proximo.agents.on_policy import MaybeCallback, OnPolicyAlgorithm
from proximo.config import OnPolicyConfig
from proximo.data import Metrics
from proximo.errors import EnvironmentStateError
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.persistence import model_files
from proximo.rollout.storage import RolloutBuffer, is_stock
from proximo.rollout.tensor_storage import VanillaRolloutStorage
from proximo.training.callbacks import BaseCallback, as_callback
from proximo.training.checkpoints import CheckpointFolder, PeriodicCheckpoints
from proximo.training.loggers import announce
from proximo.training.signals import StopOnSignal


class Host(Protocol):
    """Who owns network and storage."""

    storage: Any  # a VanillaRolloutStorage

    def train_on_rollout(self) -> Metrics | None:
        """Update the network from the full storage; metrics under the host's own names."""

    def fusing_obstacle(self) -> str | None:
        """What of the host keeps the kernels from running the network; None if nothing does."""

    def optimizers(self) -> Mapping[str, torch.optim.Optimizer]:
        """All optimisers of the network; the policy's own may be among them."""


class Hosted(OnPolicyAlgorithm):
    """What a hosted algorithm does otherwise: network, storage and update are the host's."""

    def __init__(
        self,
        host: Host,
        network: ActorCriticPolicy,
        env: Any,
        config: OnPolicyConfig,
        *,
        policy_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._host, self._network = host, network
        self.log_every = 1  # updates
        self.after_log: Callable[[], None] = _nothing
        OnPolicyAlgorithm.__init__(self, type(network), env, config, policy_kwargs=policy_kwargs, **options)

    def _make_policy(self) -> ActorCriticPolicy:
        return self._network

    def _make_buffer(self) -> RolloutBuffer:
        buffer: RolloutBuffer = self._host.storage.buffer
        return buffer

    def _fusing_obstacle(self) -> str | None:
        return self._host.fusing_obstacle() or super()._fusing_obstacle()

    def train(self) -> None:
        """Let the host update its network; its metrics are logged under its names."""
        storage: VanillaRolloutStorage = self._host.storage
        storage.store_next_observations(self._required_collector().current_observations())
        if is_stock(storage.buffer):
            storage.normalize_advantages()
        self._n_updates += 1
        for name, value in (self._host.train_on_rollout() or {}).items():
            self.logger.record(name, value)
        storage.update()

    def dump_logs(self, iteration: int = 0) -> None:
        """Write the log after the first update, and after every ``log_every`` more."""
        if (iteration - 1) % self.log_every == 0 or self.num_timesteps >= self._total_timesteps:
            super().dump_logs(iteration)
            self.after_log()

    def _own_tensors(self) -> dict[str, torch.Tensor]:
        tensors = super()._own_tensors()
        for name, optimizer in self._other_optimizers().items():
            state = model_files.flatten_state(optimizer.state_dict()["state"])
            tensors |= {f"optimizers.{name}.{key}": value for key, value in state.items()}
        return tensors

    def _load_own_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        for name, optimizer in self._other_optimizers().items():
            prefix = f"optimizers.{name}."
            flat = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": model_files.unflatten_state(flat), "param_groups": groups})
        super()._load_own_tensors({k: v for k, v in tensors.items() if not k.startswith("optimizers.")})

    def _other_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        found = self._host.optimizers().items()
        return {name: optimizer for name, optimizer in found if optimizer is not self.policy.optimizer}


# their names are those that files are read by

class PPO(Hosted, ppo.PPO):
    """PPO for a host."""


class PPG(Hosted, ppg.PPG):
    """PPG for a host."""


class DAAC(Hosted, daac.DAAC):
    """DAAC for a host."""


def _nothing() -> None:
    pass


# ------------------------------------------------------------------------------------------------ a run and its files


class StepFolder(CheckpointFolder):
    """Model files named ``{prefix}_{steps}.zip``."""

    def of(self, steps: int) -> Path:
        return self.path / f"{self.prefix}_{steps}.zip"

    def steps_of(self, path: Path) -> int:
        steps = path.stem.removeprefix(f"{self.prefix}_")
        return int(steps) if steps.isdigit() else -1


class RunCheckpoints(PeriodicCheckpoints):
    """A checkpoint every so many updates, and one at the end; all are kept."""

    def __init__(self, folder: StepFolder, every_updates: int) -> None:
        super().__init__(folder, every_steps=1, keep_last=sys.maxsize, keep_best=False)
        self.every_updates = every_updates
        self.exact = True

    def _init_callback(self) -> None:
        self._save_asked = self._stop_asked = False
        self.exact = self.training_env.has_state()

    def _is_due(self) -> bool:
        model = self.model
        due: bool = model._iteration % self.every_updates == 0 and 0 < model.num_timesteps < model._total_timesteps
        return due

    def save(self) -> Path:
        path = self.folder.of(self.model.num_timesteps)
        save_with_state(self.model, path)
        return path

    def _on_training_end(self) -> None:
        if not self._stop_asked:
            self.save()


def save_with_state(model: OnPolicyAlgorithm, path: str | Path) -> None:
    """Write a checkpoint, from which the training goes on exactly; without the environments' state if they have none."""
    try:
        state = model.training_state()
    except EnvironmentStateError:
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


def train_in_folder(
    model: OnPolicyAlgorithm,
    folder: StepFolder,
    updates: int,
    *,
    save_every: int,
    evaluate: Callable[[], object] | None = None,
    evaluate_every: int = 1,
    callback: MaybeCallback = None,
    **options: Any,
) -> None:
    """Train for a number of updates, on from where the model is; ``options`` are those of ``learn``.

    SIGTERM and SIGINT end it with a checkpoint and then do what they are for: SystemExit and KeyboardInterrupt.
    """
    checkpoints = RunCheckpoints(folder, save_every)
    env = model.get_env()
    callbacks: list[BaseCallback] = [as_callback(callback), checkpoints]
    if evaluate is not None:
        callbacks.append(BeforeRollouts(evaluate_every, evaluate))
    stop = StopOnSignal(checkpoints if env is not None and env.has_state() else None)
    with _receiving_signals(stop):
        steps = updates * model.n_steps * model.n_envs
        model.learn(steps, [*callbacks, stop], log_interval=1, reset_num_timesteps=False, **options)
    if stop.signal_number is not None:
        if stop.checkpoints is None:
            checkpoints.save()
        announce(f"stopped by {signal.Signals(stop.signal_number).name}; the training can go on from {folder.path}")
        if stop.signal_number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(stop.exit_code)


@contextmanager
def _receiving_signals(stop: StopOnSignal) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # Python hands signals to that one alone
        yield
        return
    with stop:
        yield
