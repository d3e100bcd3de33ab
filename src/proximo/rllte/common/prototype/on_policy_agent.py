"""The base of on-policy agents: rllte's ``train`` and ``eval`` over the library's loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import torch

from proximo.agents import hosted
from proximo.agents.host_run import EPISODES, HostRun, StepFolder, rates_of
from proximo.agents.on_policy import MaybeCallback, set_random_seed
from proximo.config import OnPolicyConfig, PPOConfig
from proximo.data import Metrics
from proximo.networks.foreign import ForeignPolicy
from proximo.rllte.common.logger import Logger
from proximo.rllte.common.prototype.base_agent import BaseAgent
from proximo.rollout.tensor_storage import VanillaRolloutStorage


class OnPolicyAgent(HostRun, BaseAgent):
    """Trains on one rollout after another, in the library's loop.

    An agent of your own calls ``self.set(encoder=…, policy=…, storage=…)`` in its constructor and implements
    :meth:`update`, in which it loops over ``self.storage.sample()``, asks ``self.policy.evaluate_actions`` and steps
    ``self.policy.optimizers["opt"]``. ``agent.model`` is the library's algorithm that runs it.
    """

    model_class: type[hosted.Hosted] = hosted.PPO
    model: hosted.Hosted  # made by freeze()

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
        """Arguments:
        num_steps: Steps per environment and rollout.
        """
        super().__init__(env, eval_env, tag, seed, device, pretraining)
        if num_steps < 1:
            raise ValueError(f"num_steps is {num_steps}; expected at least one step per rollout")
        self.num_steps = num_steps
        self.logger = Logger()

    def _check_storage(self, storage: VanillaRolloutStorage) -> None:
        super()._check_storage(storage)
        if storage.storage_size != self.num_steps:
            raise ValueError(
                f"the storage holds {storage.storage_size} steps, the agent collects num_steps {self.num_steps}; make "
                f"it with storage_size={self.num_steps}"
            )

    def update(self) -> Metrics | None:
        raise NotImplementedError(f"{type(self).__name__} must say in update() how it learns from self.storage")

    # -- the library's algorithm

    def freeze(self, init_model_path: str | Path | None = None, th_compile: bool = False) -> None:
        """Build the network from the modules, once; then take weights from a file of :meth:`save`, if one is given."""
        self.check()
        if not self._frozen:
            set_random_seed(self.seed, using_cuda=self.device.type == "cuda")
            self.policy.freeze(encoder=self.encoder, dist=self.dist)
            self.policy.to(self.device)
            self.model = self._make_model()
            self._initial_rates = rates_of(self.policy.optimizers)
            self._frozen = True
        if init_model_path is not None:
            self.take_weights(init_model_path)
        if th_compile:
            self._compile()

    def _make_model(self) -> hosted.Hosted:
        own = self._has_own_policy()
        network = ForeignPolicy(self.policy) if own else self.policy.network
        model = self.model_class(
            self, network, self.vec_env, self._config(), seed=self.seed, device=self.device, stats_window_size=EPISODES,
            policy_kwargs={} if own else self.policy.policy_kwargs, augmentation=self.aug,
        )  # fmt: skip
        if not own:
            model.policy_class = self.policy.policy_class
        return model

    def _has_own_policy(self) -> bool:
        """Whether the policy is the user's own, without a network of the library."""
        return not hasattr(self.policy, "network")

    def _config(self) -> OnPolicyConfig:
        """Of an agent with an update of its own, only the rollout's hyperparameters count."""
        return PPOConfig(**self._rollout_settings())

    def _rollout_settings(self) -> dict[str, Any]:
        storage = self.storage
        return {
            "n_steps": self.num_steps,
            "batch_size": storage.batch_size,
            "gamma": storage.discount,
            "gae_lambda": storage.gae_lambda,
            "normalize_advantage": False,  # the storage has done it, over the whole rollout
        }

    def fusing_obstacle(self) -> str | None:
        """Why the kernels cannot run it; None if they can."""
        if self._has_own_policy():
            return f"policy is {type(self.policy).__name__}"
        if self.storage.decides():
            return f"{type(self.storage).__name__} samples in its own way"
        return None

    def optimizers(self) -> Mapping[str, torch.optim.Optimizer]:
        """The optimisers whose state a checkpoint holds."""
        found: Mapping[str, torch.optim.Optimizer] = self.policy.optimizers
        return found

    def _compile(self) -> None:
        if self.backend == "fused":
            self.logger.info("th_compile is not needed: the fused backend runs this policy, and is faster")
        elif self._has_own_policy():
            self.policy.compile()
        else:
            self.policy.compile_network()

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
        *,
        callback: MaybeCallback = None,
        log_formats: Sequence[str] = ("csv", "json"),
        **options: Any,
    ) -> None:
        """Train for ``num_train_steps`` steps, in whole rollouts and at least one; intervals count updates.

        Called again, or after :meth:`load`, it goes on from where it was. ``init_model_path`` is a file of
        :meth:`save`, whose weights are taken; ``anneal_lr`` lowers the learning rate linearly towards 0 within this
        call. Evaluation needs an ``eval_env``.
        Beyond rllte: ``callback`` is one of the library's or a list of them, ``log_formats`` are of csv, json, log,
        stdout and tensorboard, and ``options`` are those of ``learn``, such as ``on_non_finite`` and ``progress_bar``.
        """
        updates = self._count_updates(num_train_steps)
        for name, interval in (("log", log_interval), ("eval", eval_interval), ("save", save_interval)):
            if interval < 1:
                raise ValueError(f"{name}_interval is {interval}; expected a number of updates of at least 1")
        self.freeze(init_model_path, th_compile)
        self._annealing = anneal_lr
        self.work_dir = None  # every call has a run of its own
        self.logger = Logger(self.folder().path.parent, self.tag)
        self.model.rollout_buffer = self.storage.buffer
        self._bind_reward()
        self.run(
            updates,
            save_every=save_interval,
            log_every=log_interval,
            after_log=lambda: self.logger.train(self.progress()),
            evaluate=None if self.eval_env is None else lambda: self._log_evaluation(num_eval_episodes),
            evaluate_every=eval_interval,
            callback=callback,
            log_formats=log_formats,
            **options,
        )

    def _bind_reward(self) -> None:
        if self.irs is not self.model.intrinsic_reward:
            self.model.intrinsic_reward = self.irs
            self.model._bind_intrinsic_reward()
        if self.pretraining:
            self.irs.extrinsic_coef = 0.0

    def _count_updates(self, num_train_steps: float) -> int:
        if not isinstance(num_train_steps, Real) or not 0 < num_train_steps < math.inf:
            raise ValueError(f"num_train_steps is {num_train_steps!r}; expected a positive number of steps")
        return max(1, int(num_train_steps // (self.num_steps * self.num_envs)))

    def train_on_rollout(self) -> Metrics:
        """One update, as the loop asks for it."""
        steps = self.num_steps * self.num_envs
        self.global_step = self.model.num_timesteps
        self.global_episode = (self.global_step // steps - 1) * self.num_envs  # the update under way is not counted yet
        self._set_learning_rates()
        self.mode(training=True)
        metrics = self.update() or {}
        metrics = {**self.logger.take(), **metrics}
        self.global_episode += self.num_envs
        self.metrics = {name if "/" in name else f"train/{name}": float(value) for name, value in metrics.items()}
        return self.metrics

    # -- evaluation and logs

    def eval(self, num_eval_episodes: int) -> dict[str, float]:
        """Play episodes in ``eval_env`` with the likeliest actions, always from the same seed."""
        if self.eval_env is None:
            raise ValueError(
                f"there is no evaluation environment; make the agent with {type(self).__name__}(…, eval_env=…)"
            )
        return self.play(self.eval_env, num_eval_episodes)

    def _log_evaluation(self, episodes: int) -> None:
        results = self.eval(episodes)
        for name in ("episode_length", "episode_reward"):
            self.model.logger.record(f"eval/{name}", results[name])
        self.logger.eval(results)

    def _set_learning_rates(self) -> None:
        self.set_rates(self.policy.optimizers, self._initial_rates)

    # -- files

    def build(self) -> None:
        self.freeze()

    def folder(self) -> StepFolder:
        folder = super().folder()
        return StepFolder(folder.path.with_name("pretrained"), "pretrained") if self.pretraining else folder

    def load(self, path: str | Path) -> None:
        """Go on from a file of :meth:`save`, in an agent made with the same arguments; nothing in it is executed."""
        super().load(path)
        self.global_episode = self.global_step // self.num_steps
