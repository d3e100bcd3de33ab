"""The training loop: collect, update, log, checkpoint; the same for every algorithm."""

from __future__ import annotations

from typing import Any, Protocol

from proximo.backends.runtime import Runtime
from proximo.backends.threads import torch_threads
from proximo.distributed import show_life
from proximo.envs.vector.vec_env import VecEnv
from proximo.rollout.storage import RolloutBuffer
from proximo.training.allocator import retain_freed_memory
from proximo.training.callbacks import BaseCallback


class Trainable(Protocol):
    """What the loop needs of a model."""

    num_timesteps: int
    n_steps: int
    n_envs: int
    runtime: Runtime
    rollout_buffer: RolloutBuffer
    _iteration: int

    @property
    def env(self) -> Any: ...

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Fill the rollout buffer; False when a callback ended the training (the rollout is then discarded)."""

    def _complete_own_collection(self) -> None:
        """Do, or say, what a user's ``collect_rollouts`` has left out."""

    def train(self) -> None:
        """Update the policy from the rollout buffer and record the metrics."""

    def dump_logs(self, iteration: int = 0) -> None: ...

    def highest_of_all(self, *numbers: float) -> list[float]:
        """The highest of each number over the processes that train together, all of which must ask."""

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None: ...

    def _restore_training(self, callback: BaseCallback) -> None:
        """Go on from the checkpoint that the model was loaded from, if it is to."""


class TrainingLoop:
    """Runs a model until it has seen a number of steps or a callback says stop."""

    def __init__(self, model: Trainable, callback: BaseCallback, log_interval: int | None) -> None:
        self.model = model
        self.callback = callback
        self.log_interval = log_interval

    def run(self, total_timesteps: int, local_variables: dict[str, Any], global_variables: dict[str, Any]) -> None:
        try:
            self.callback.on_training_start(local_variables, global_variables)
            self.model._restore_training(self.callback)
            with retain_freed_memory(), torch_threads.given_back():
                while self._all_proceed() and self.model.num_timesteps < total_timesteps:
                    if not self._iterate(total_timesteps):  # checkpoints are taken between iterations
                        break
            if self.log_interval is not None and self.model._iteration % self.log_interval != 0:
                self.model.dump_logs(self.model._iteration)  # the metrics of the last iterations are not lost
            self.callback.on_training_end()
        finally:
            self.callback.close()

    def _all_proceed(self) -> bool:
        """Tell the callbacks that an iteration is over; False when one of them, in any process, ends the training."""
        proceed = self.callback.between_iterations()
        return not self.model.highest_of_all(not proceed)[0]

    def _iterate(self, total_timesteps: int) -> bool:
        """One rollout with its advantages, one update; False when a callback ended the training."""
        model = self.model
        show_life("collecting a rollout")
        if not model.collect_rollouts(model.env, self.callback, model.rollout_buffer, model.n_steps):
            return False
        model._complete_own_collection()
        model._iteration += 1
        model._update_current_progress_remaining(model.num_timesteps, total_timesteps)
        show_life("updating the policy")
        model.runtime.use_threads(rows_of_minibatch(model))
        model.train()
        show_life("between two iterations")
        if self.log_interval is not None and model._iteration % self.log_interval == 0:
            model.dump_logs(model._iteration)
        return True


def rows_of_minibatch(model: Trainable) -> int:
    """How many rows the network sees in one call of an update; one with memory sees whole sequences."""
    whole = model.n_steps * model.n_envs
    rows = min(whole, getattr(model, "batch_size", whole))
    if (group := model.runtime.group) is not None and model.runtime.reduce is not None:
        rows //= group.world_size  # each process has its share of a minibatch
    return max(1, rows)


class CallbackListener:
    """Passes the collector's steps on to the callbacks, and counts the steps of a model: the only place that does."""

    def __init__(self, model: Trainable, callback: BaseCallback) -> None:
        self.model = model
        self.callback = callback
        self._before = model.num_timesteps

    def wants_steps(self) -> bool:
        return self.callback.wants_steps()

    def wants_locals(self) -> bool:
        return self.callback.wants_locals()

    def on_step(self, environments: int, local_variables: dict[str, Any] | None) -> bool:
        self.model.num_timesteps += environments
        if local_variables is not None:
            self.callback.update_locals(local_variables)
        return self.callback.on_step()

    def count_whole(self, steps: int) -> None:
        """A whole rollout is over, whether or not anybody wanted to be told of its steps."""
        self.model.num_timesteps = self._before + steps
