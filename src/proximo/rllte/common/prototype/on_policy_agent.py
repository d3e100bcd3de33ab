"""The base of on-policy agents: rllte's ``train`` and ``eval`` over the library's loop."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proximo.agents import hosted
from proximo.agents.on_policy import MaybeCallback, set_random_seed
from proximo.analysis.evaluation import evaluate
from proximo.config import OnPolicyConfig, PPOConfig
from proximo.data import Metrics
from proximo.envs import as_vec_env
from proximo.errors import ModelFileError
from proximo.exploration.shaping import IntrinsicReward
from proximo.persistence import model_files
from proximo.rllte.common.logger import Logger
from proximo.rllte.common.prototype.base_agent import BaseAgent
from proximo.rllte.common.prototype.base_policy import OwnNetwork
from proximo.rllte.xploit.policy.network_policy import NetworkPolicy
from proximo.rollout.tensor_storage import VanillaRolloutStorage
from proximo.training.loggers import announce, configure
from proximo.training.run_folder import file_name, make_unique_folder

EPISODES = 10  # whose mean return and length are logged


class OnPolicyAgent(BaseAgent):
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
        super().__init__(env, eval_env, tag, seed, device, pretraining)
        if num_steps < 1:
            raise ValueError(f"num_steps is {num_steps}; expected at least one step per rollout")
        self.num_steps = num_steps
        self.logger = Logger()
        self._annealing = False
        self._seconds = 0.0  # spent in earlier calls of train()

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
            self._initial_rates = {
                name: [group["lr"] for group in optimizer.param_groups]
                for name, optimizer in self.policy.optimizers.items()
            }
            self._frozen = True
        if init_model_path is not None:
            self.model.set_parameters(init_model_path, exact_match=False)
        if th_compile:
            self._compile()

    def _make_model(self) -> hosted.Hosted:
        own = not isinstance(self.policy, NetworkPolicy)
        network = OwnNetwork(self.policy) if own else self.policy.network
        model = self.model_class(
            self, network, self.vec_env, self._config(), seed=self.seed, device=self.device, stats_window_size=EPISODES,
            policy_kwargs={} if own else self.policy.policy_kwargs,
        )  # fmt: skip
        if not own:
            model.policy_class = self.policy.policy_class
        return model

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
        if not isinstance(self.policy, NetworkPolicy):
            return f"policy is {type(self.policy).__name__}"
        if self.storage.decides():
            return f"{type(self.storage).__name__} samples in its own way"
        return None

    def optimizers(self) -> Mapping[str, torch.optim.Optimizer]:
        found: Mapping[str, torch.optim.Optimizer] = self.policy.optimizers
        return found

    @property
    def generator(self) -> np.random.Generator:
        """Draws exploration noise and minibatches."""
        self.freeze()
        return self.model.generator

    @property
    def backend(self) -> str:
        """Which backend runs the policy, and why: ``"fused"`` or ``"torch: features extractor is MnihCnnEncoder"``."""
        self.freeze()
        return self.model.backend

    def _compile(self) -> None:
        if self.backend == "fused":
            self.announce("th_compile is not needed: the fused backend runs this policy, and is faster")
        elif isinstance(self.policy, NetworkPolicy):
            self.policy.compile_network()
        else:
            self.policy.compile()

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
        self.work_dir = self._make_work_dir()
        self.logger = Logger(self.work_dir, self.tag)
        model = self.model
        model.rollout_buffer = self.storage.buffer
        model.set_logger(configure(self.work_dir, list(log_formats)))
        model.log_every, model.after_log = log_interval, self._log_training
        model.reward_shaper = None
        if self.irs is not None:
            model.reward_shaper = IntrinsicReward(self.irs, self.pretraining, self.device)
        try:
            hosted.train_in_folder(
                model,
                hosted.StepFolder(*self._places()),
                updates,
                save_every=save_interval,
                evaluate=None if self.eval_env is None else lambda: self._log_evaluation(num_eval_episodes),
                evaluate_every=eval_interval,
                callback=callback,
                **options,
            )
        finally:
            self._seconds = self._total_time()
            model.start_time = 0
            model.logger.close()
            model.set_logger(configure(None, []))  # until the next run's

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

    def _set_learning_rates(self) -> None:
        share = 1.0
        if self._annealing:
            model, steps = self.model, self.num_steps * self.num_envs
            done = model.num_timesteps - steps - model._num_timesteps_at_start
            share -= done / (model._total_timesteps - model._num_timesteps_at_start)
        for name, optimizer in self.policy.optimizers.items():
            for group, initial in zip(optimizer.param_groups, self._initial_rates[name], strict=True):
                group["lr"] = share * initial

    # -- evaluation and logs

    def eval(self, num_eval_episodes: int) -> dict[str, float]:
        """Play episodes in ``eval_env`` with the likeliest actions, always from the same seed."""
        if self.eval_env is None:
            raise ValueError(
                f"there is no evaluation environment; make the agent with {type(self).__name__}(…, eval_env=…)"
            )
        self.freeze()
        env = as_vec_env(self.eval_env)
        env.seed(self.seed)
        was_training = self.training
        self.mode(training=False)
        evaluation = evaluate(self.model.policy, env, num_eval_episodes, warn=False)
        self.mode(was_training)
        if env is self.vec_env:  # it was left in the middle of an episode that is not the collector's
            self.model._required_collector().reset()
        return {
            "step": self.global_step,
            "episode": self.global_episode,
            "episode_length": float(np.mean(evaluation.episode_lengths)),
            "episode_reward": evaluation.mean,
            "total_time": self._total_time(),
        }

    def _total_time(self) -> float:
        """Seconds spent in train()."""
        start = getattr(self.model, "start_time", 0) if self._frozen else 0
        return self._seconds + ((time.time_ns() - start) / 1e9 if start else 0.0)

    def _log_evaluation(self, episodes: int) -> None:
        results = self.eval(episodes)
        for name in ("episode_length", "episode_reward"):
            self.model.logger.record(f"eval/{name}", results[name])
        self.logger.eval(results)

    def _log_training(self) -> None:
        episodes, seconds = self.model.ep_info_buffer, self._total_time()
        results: dict[str, float] = {"step": self.global_step, "episode": self.global_episode}
        if episodes:
            results["episode_length"] = float(np.mean([episode["l"] for episode in episodes]))
            results["episode_reward"] = float(np.mean([episode["r"] for episode in episodes]))
        results |= {"fps": self.global_step / max(seconds, 1e-9), "total_time": seconds}
        self.logger.train(results)

    def announce(self, message: str) -> None:
        announce(f"[{self.tag}] {message}")

    # -- files

    def _make_work_dir(self) -> Path:
        stamp = datetime.now().strftime("%Y-%m-%d-%H-%M-%S")
        return make_unique_folder(Path("logs").resolve() / file_name(self.tag) / stamp)

    def _places(self) -> tuple[Path, str]:
        """Where a run's model files go, and what their names begin with."""
        self.work_dir = self.work_dir or self._make_work_dir()
        return (self.work_dir / "pretrained", "pretrained") if self.pretraining else (self.work_dir / "model", "agent")

    def save(self, path: str | Path | None = None) -> Path:
        """Write a model file, a checkpoint where the environments can tell their state; returns where.

        Without a path: ``model/agent_{step}.zip`` in the run's folder, ``pretrained/pretrained_{step}.zip`` when
        pre-training. :meth:`load` goes on from it, ``proximo.PPO.load(path).predict(observation)`` plays it.
        """
        self.freeze()
        target = hosted.StepFolder(*self._places()).of(self.global_step) if path is None else Path(path)
        target = target if target.suffix else target.with_suffix(".zip")
        target.parent.mkdir(parents=True, exist_ok=True)
        hosted.save_with_state(self.model, target)
        return target

    def load(self, path: str | Path) -> None:
        """Go on from a file of :meth:`save`, in an agent made with the same arguments; nothing in it is executed."""
        self.freeze()
        try:
            model_files.load_into(self.model, path)
        except ModelFileError as error:
            raise ModelFileError(
                f"{path} does not fit this {type(self).__name__} ({error}); load it into an agent made with the "
                "arguments it was saved with"
            ) from error
        self.global_step = self.model.num_timesteps
        self.global_episode = self.global_step // self.num_steps
