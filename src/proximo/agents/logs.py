"""What a model logs: metrics of updates, rewards, the latest episodes and the time."""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np

from proximo.agents.together import TogetherSide
from proximo.data import Array, Metrics, Rollout
from proximo.training.loggers import Logger, configure_logger


class LogSide(TogetherSide):
    """Holds the logger, and the time since a training began."""

    _adapt_learning_rate: Any

    @property
    def logger(self) -> Logger:
        """Where metrics go; see :meth:`set_logger`."""
        if self._logger is None:
            self._logger = configure_logger(0, None)
        return self._logger

    def set_logger(self, logger: Logger) -> None:
        """Log here instead of where ``verbose`` and ``tensorboard_log`` say; of many processes, only the first does."""
        self._logger = logger if self.rank == 0 else Logger(None, [])
        self._custom_logger = True

    def _record_rewards(self, rollout: Rollout, extrinsic: Array | None) -> None:
        """Log the environment's reward and the intrinsic one apart: means over the steps that train."""
        trained = ... if rollout.valid is None else rollout.valid
        for name, rewards in (("extrinsic", extrinsic), ("intrinsic", rollout.intrinsic_rewards)):
            self.logger.record_mean(f"rollout/{name}_reward_mean", float(np.mean(rewards[trained])))  # type: ignore[index]

    def _record(self, metrics: Metrics, updates: int = 1) -> None:
        """Count and log an update."""
        self._n_updates += updates
        self._adapt_learning_rate(metrics)
        for name, value in metrics.items():
            self.logger.record(f"train/{name}", value)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    @property
    def start_time(self) -> int:
        """Nanoseconds: ``time.time_ns() - start_time`` is how long it trains, though somebody may set the clock."""
        return time.time_ns() - (time.monotonic_ns() - self._started)

    @start_time.setter
    def start_time(self, nanoseconds: int) -> None:
        self._started = time.monotonic_ns() - (time.time_ns() - int(nanoseconds))

    def dump_logs(self, iteration: int = 0) -> None:
        """Write what was recorded, with the time and the statistics of the latest episodes."""
        elapsed = max((time.monotonic_ns() - self._started) / 1e9, sys.float_info.epsilon)
        record = self.logger.record
        if iteration > 0:
            record("time/iterations", iteration, exclude="tensorboard")
        if self.ep_info_buffer:
            record("rollout/ep_rew_mean", float(np.mean([episode["r"] for episode in self.ep_info_buffer])))
            record("rollout/ep_len_mean", float(np.mean([episode["l"] for episode in self.ep_info_buffer])))
        if self.ep_success_buffer:
            record("rollout/success_rate", float(np.mean(self.ep_success_buffer)))
        record("time/fps", int((self.num_timesteps - self._num_timesteps_at_start) / elapsed))
        record("time/time_elapsed", int(elapsed), exclude="tensorboard")
        record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(step=self.num_timesteps)

    def _dump_logs(self, iteration: int = 0) -> None:
        """The earlier name, which loops that were written for Stable-Baselines3 call."""
        warnings.warn("_dump_logs() is deprecated; call dump_logs()", stacklevel=2)
        self.dump_logs(iteration)
