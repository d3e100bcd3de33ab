"""The base of on-policy agents: collect a rollout, update, log, evaluate, save."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proximo.analysis.evaluation import evaluate
from proximo.backends.runtime import Runtime
from proximo.data import Info, Metrics, Observation, Rollout
from proximo.rllte.common.acting import PlainPolicyBackend
from proximo.rllte.common.prototype.base_agent import BaseAgent, to_vec_env
from proximo.rllte.xploit.policy.actor_critic import NetworkPolicy
from proximo.rllte.xploit.storage.rollout_storage import StorageBatches, VanillaRolloutStorage
from proximo.rollout.collector import Collector
from proximo.rollout.storage import RolloutBuffer
from proximo.training.allocator import retain_freed_memory
from proximo.training.loggers import Logger, configure

EPISODES = 10  # whose mean return and length are logged


class OnPolicyAgent(BaseAgent):
    """Trains on one rollout after another.

    An agent of your own calls ``self.set(encoder=…, policy=…, storage=…)`` in its constructor and implements
    :meth:`update`, in which it loops over ``self.storage.sample()``, asks ``self.policy.evaluate_actions`` and steps
    ``self.policy.optimizers["opt"]``.
    """

    def __init__(
        self,
        env: Any,
        eval_env: Any = None,
        tag: str = "default",
        seed: int = 1,
        device: str = "cpu",
        pretraining: bool = False,
        num_steps: int = 128,
    ) -> None:
        super().__init__(env, eval_env, tag, seed, device, pretraining)
        if num_steps < 1:
            raise ValueError(f"num_steps is {num_steps}; expected at least one step per rollout")
        self.num_steps = num_steps
        self._episodes: deque[Info] = deque(maxlen=EPISODES)
        self._collector = Collector(self.vec_env, self._episodes, deque(maxlen=EPISODES))
        self._seconds = 0.0  # spent in train()

    def _check_storage(self, storage: VanillaRolloutStorage) -> None:
        super()._check_storage(storage)
        if storage.storage_size != self.num_steps:
            raise ValueError(
                f"the storage holds {storage.storage_size} steps, the agent collects num_steps {self.num_steps}; make "
                f"it with storage_size={self.num_steps}"
            )

    def update(self) -> Metrics | None:
        raise NotImplementedError(f"{type(self).__name__} must say in update() how it learns from self.storage")

    # -- the backend that acts, and, for the agents of this library, trains

    def _bind(self) -> None:
        self.vec_env.seed(self.seed)
        self._initial_rates = {
            name: [group["lr"] for group in optimizer.param_groups]
            for name, optimizer in self.policy.optimizers.items()
        }
        self._bind_backend()

    def _bind_backend(self) -> None:
        self.runtime = Runtime(self.generator, obstacle=self._fusing_obstacle)
        if isinstance(self.policy, NetworkPolicy):
            self.runtime.policy = self.policy.network
            self.runtime.bind()

    def _fusing_obstacle(self) -> str | None:
        if self.aug is not None:
            return "observations are augmented"
        if self._own_sampling():
            return f"{type(self.storage).__name__} samples in its own way"
        return None

    def _own_sampling(self) -> bool:
        return type(self.storage).sample is not VanillaRolloutStorage.sample

    def _current_backend(self) -> Any:
        """Who acts: the runtime's backend, or the calls of a policy of the user's own."""
        return self.runtime.backend if isinstance(self.policy, NetworkPolicy) else PlainPolicyBackend(self.policy)

    @property
    def backend(self) -> str:
        """Which backend runs the policy, and why: ``"fused"`` or ``"torch: features extractor is MnihCnnEncoder"``."""
        self.freeze()
        return str(self._current_backend().description)

    def _compile(self) -> None:
        if self._current_backend().description == "fused":
            self.announce("th_compile is not needed: the fused backend runs this policy, and is faster")
            return
        super()._compile()

    def _require_rollout(self) -> None:
        if not self._frozen or not self.storage.full:
            raise ValueError(
                f"{type(self).__name__}.update() trains on a full storage; call train(), or freeze() and "
                f"{self.num_steps} times storage.add() first"
            )

    def _batches(self) -> RolloutBuffer:
        """The storage's rollout as the library's learners read it."""
        if self.aug is None and not self._own_sampling():
            return self.storage.buffer
        return StorageBatches(self.storage, self.aug)

    # -- training

    def train(
        self,
        num_train_steps: float,
        init_model_path: str | Path | None = None,
        log_interval: int = 1,
        eval_interval: int = 100,
        save_interval: int = 100,
        num_eval_episodes: int = 10,
        th_compile: bool = False,
        anneal_lr: bool = False,
    ) -> None:
        """Train for ``num_train_steps`` steps, in whole rollouts and at least one; intervals count updates.

        Called again, it goes on from where it was. ``init_model_path`` is a file of :meth:`save`, whose weights are
        taken; ``anneal_lr`` lowers the learning rate linearly towards 0 within this call. Evaluation needs an
        ``eval_env``.
        """
        updates = self._count_updates(num_train_steps)
        for name, interval in (("log", log_interval), ("eval", eval_interval), ("save", save_interval)):
            if interval < 1:
                raise ValueError(f"{name}_interval is {interval}; expected a number of updates of at least 1")
        self.freeze(init_model_path, th_compile)
        self.work_dir = self._make_work_dir()
        self.logger = configure(self.work_dir, ["csv", "json"])
        clock = _Clock(self)
        try:
            with retain_freed_memory():
                for update in range(updates):
                    if self.eval_env is not None and update % eval_interval == 0:
                        self._log_evaluation(self.eval(num_eval_episodes))
                    self._set_learning_rates(1.0 - update / updates if anneal_lr else 1.0)
                    self.metrics = self._iterate()
                    clock.tick()
                    if update % log_interval == 0 or update == updates - 1:
                        self._log_training(clock)
                    if (update + 1) % save_interval == 0 and update != updates - 1:
                        self.save()
            self.save()
        finally:
            self.logger.close()
            self.logger = Logger(None, [])

    def _count_updates(self, num_train_steps: float) -> int:
        if not isinstance(num_train_steps, Real) or not 0 < num_train_steps < math.inf:
            raise ValueError(f"num_train_steps is {num_train_steps!r}; expected a positive number of steps")
        return max(1, int(num_train_steps // (self.num_steps * self.num_envs)))

    def _iterate(self) -> Metrics:
        """One rollout with its advantages, and one update."""
        self._collector.keep_final_observations = self.irs is not None
        rollout = self.storage.buffer.rollout
        self._collector.collect(self._current_backend(), self.storage.buffer, _NOBODY, {})
        if self.irs is not None:
            self._collector.shape_rewards(rollout, self._shape_rewards)
        self._collector.leave_out_non_finite(rollout)
        self.storage.compute_returns_and_advantages(torch.from_numpy(rollout.last_values).unsqueeze(1))
        self.global_step += rollout.rewards.size
        self.global_episode += int((rollout.terminated | rollout.truncated).sum())
        self.mode(training=True)
        metrics = self.update() or {}
        self.storage.update()
        named = {name if "/" in name else f"train/{name}": float(value) for name, value in metrics.items()}
        for name, value in named.items():
            self.logger.record(name, value)
        return named

    def _set_learning_rates(self, share: float) -> None:
        for name, optimizer in self.policy.optimizers.items():
            for group, initial in zip(optimizer.param_groups, self._initial_rates[name], strict=True):
                group["lr"] = share * initial

    def _shape_rewards(self, rollout: Rollout, next_observations: Observation) -> None:
        """Add the intrinsic reward; pre-training sees nothing else. The advantages are estimated afterwards."""
        if self.pretraining:
            rollout.rewards[:] = 0.0
        self.irs.shape(rollout, next_observations)
        self.logger.record("train/intrinsic_reward", float(np.mean(rollout.intrinsic_rewards)))  # type: ignore[arg-type]

    # -- evaluation and logs

    def eval(self, num_eval_episodes: int) -> dict[str, float]:
        """Play episodes in ``eval_env`` with the likeliest actions, always from the same seed."""
        if self.eval_env is None:
            raise ValueError(
                f"there is no evaluation environment; make the agent with {type(self).__name__}(…, eval_env=…)"
            )
        self.freeze()
        env = to_vec_env(self.eval_env)
        env.seed(self.seed)
        was_training = self.training
        self.mode(training=False)
        evaluation = evaluate(self.policy, env, num_eval_episodes, warn=False)
        self.mode(was_training)
        if env is self.vec_env:  # it was left in the middle of an episode that is not the collector's
            self._collector.reset()
        return {
            "step": self.global_step,
            "episode": self.global_episode,
            "episode_length": float(np.mean(evaluation.episode_lengths)),
            "episode_reward": evaluation.mean,
            "total_time": self._seconds,
        }

    def _log_evaluation(self, results: Mapping[str, float]) -> None:
        for name in ("episode_length", "episode_reward"):
            self.logger.record(f"eval/{name}", results[name])
        self.announce(_line("eval", results))

    def _log_training(self, clock: _Clock) -> None:
        results: dict[str, float] = {"step": self.global_step, "episode": self.global_episode}
        if self._episodes:
            results["episode_length"] = float(np.mean([episode["l"] for episode in self._episodes]))
            results["episode_reward"] = float(np.mean([episode["r"] for episode in self._episodes]))
        results["fps"], results["total_time"] = clock.steps_per_second, self._seconds
        for name, value in results.items():
            self.logger.record(f"rollout/{name}" if "_" in name and name != "total_time" else f"time/{name}", value)
        self.logger.dump(self.global_step)
        self.announce(_line("train", results))


class _Clock:
    """Seconds and steps of one call of ``train``; the agent keeps the sum of all."""

    def __init__(self, agent: OnPolicyAgent) -> None:
        self.agent = agent
        self.start, self.start_step, self.before = time.perf_counter(), agent.global_step, agent._seconds

    def tick(self) -> None:
        self.agent._seconds = self.before + time.perf_counter() - self.start

    @property
    def steps_per_second(self) -> float:
        return (self.agent.global_step - self.start_step) / max(self.agent._seconds - self.before, 1e-9)


class _Nobody:
    """A listener that wants nothing."""

    def wants_steps(self) -> bool:
        return False

    def wants_locals(self) -> bool:
        return False

    def on_step(self, environments: int, local_variables: dict[str, Any] | None) -> bool:
        return True


_NOBODY = _Nobody()


def _line(kind: str, results: Mapping[str, float]) -> str:
    return f"{kind:5s} " + ", ".join(f"{name.replace('_', ' ')} {value:.6g}" for name, value in results.items())
