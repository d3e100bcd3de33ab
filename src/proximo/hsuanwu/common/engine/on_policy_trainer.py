"""Hsuanwu's trainer: a configuration and two environments become a training in the library's loop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from proximo.agents import hosted
from proximo.agents.host_run import EPISODES, HostRun
from proximo.agents.on_policy import set_random_seed
from proximo.data import Metrics
from proximo.envs import as_vec_env
from proximo.files.named_parts import Part, is_named
from proximo.functional.spaces import Space
from proximo.hsuanwu.common.engine.configuration import PARTS, TrainerSettings, read_settings
from proximo.hsuanwu.described_spaces import describe_action_space, to_action_space, to_observation_space
from proximo.hsuanwu.xploit.learner import BaseLearner, PPGLearner
from proximo.hsuanwu.xploit.storage import VanillaRolloutStorage
from proximo.networks.actor_critic import get_device


class OnPolicyTrainer(HostRun):
    """Trains the learner that a configuration names, with its encoder, storage, augmentation and intrinsic reward.

    ``cfgs`` is a DictConfig, a dict or the path of a YAML file. A part is named by ``name: PPGLearner`` or by
    ``_target_: proximo.hsuanwu.xploit.learner.PPGLearner``; spaces, sizes and device come from environment and
    configuration where the part says nothing. Environments are those of :mod:`proximo.hsuanwu.env`, or anything else
    that can be stepped. Files go to ``logs/{experiment}/{time}``; the process stays in its folder.
    """

    def __init__(self, cfgs: Mapping[str, Any] | str | Path, train_env: Any, test_env: Any = None) -> None:
        """Arguments:
        cfgs: The configuration: a DictConfig, a dict, or the path of a YAML file.
        train_env: Vector environments to train in.
        test_env: Vector environments to evaluate in; None evaluates never.
        """
        self.settings = settings = read_settings(cfgs)
        self.tag, self.seed, self.test_env = settings.experiment, settings.seed, test_env
        env = as_vec_env(train_env)
        if settings.num_envs not in (None, env.num_envs):
            raise ValueError(f"num_envs is {settings.num_envs}, the training environment has {env.num_envs}")
        set_random_seed(settings.seed, using_cuda=get_device(settings.device).type == "cuda")
        self.learner = _make_learner(settings, env.observation_space, env.action_space)
        self.storage = _make_storage(settings, self.learner, env.num_envs)
        self.model = self._make_model(env)

    def _make_model(self, env: Any) -> hosted.Hosted:
        """The library's algorithm around the learner's network; both share one runtime and one learner."""
        learner = self.learner
        kind = hosted.PPG if isinstance(learner, PPGLearner) else hosted.PPO
        model = kind(
            self,
            learner.network,
            env,
            learner.configuration(self.storage.num_steps, env.num_envs),
            policy_kwargs=learner.policy_kwargs,
            seed=self.seed,
            device=learner.device,
            stats_window_size=EPISODES,
            augmentation=learner.aug,
            intrinsic_reward=learner.irs,
        )
        learner.runtime, learner.learner = model.runtime, model.learner
        return model

    # -- what the loop asks of its host

    def build(self) -> None:
        """It is there already."""

    def train_on_rollout(self) -> Metrics:
        """One update of the learner, which the loop asks for."""
        steps = self.storage.num_steps * self.storage.num_envs
        self.global_step = self.model.num_timesteps
        self.global_episode = self.global_step // steps - 1
        self.storage.estimated = True  # by the collector
        metrics = self.learner.update(self.storage, episode=self.global_episode)
        self.global_episode += 1
        return {f"train/{name}": value for name, value in metrics.items()}

    def fusing_obstacle(self) -> str | None:
        """Why the kernels cannot run it; None if they can."""
        return None

    def optimizers(self) -> Mapping[str, torch.optim.Optimizer]:
        """The optimisers whose state a checkpoint holds."""
        return {}

    # -- use

    def train(self, **options: Any) -> None:
        """Train for ``num_train_steps``, testing every ``test_every_episodes`` updates; log and save.

        ``options`` are those of :meth:`HostRun.run`: ``callback``, ``log_formats``, ``save_every``, and of ``learn``.
        """
        settings = self.settings
        self.work_dir = None  # every call has a run of its own
        updates = max(1, int(settings.num_train_steps // (self.storage.num_steps * self.storage.num_envs)))
        test = None if self.test_env is None else self._log_test
        self.run(updates, evaluate=test, evaluate_every=settings.test_every_episodes, **options)

    def test(self) -> dict[str, float]:
        """Play ``num_test_episodes`` episodes with the likeliest actions.

        Returns ``step``, ``episode``, ``episode_length``, ``episode_reward`` and ``total_time``.
        """
        if self.test_env is None:
            raise ValueError("there is no evaluation environment; make the trainer with OnPolicyTrainer(…, test_env=…)")
        return self.play(self.test_env, self.settings.num_test_episodes)

    def _log_test(self) -> None:
        results = self.test()
        for name in ("episode_length", "episode_reward"):
            self.model.logger.record(f"test/{name}", results[name])


class HsuanwuEngine:
    """A trainer under the name that Hsuanwu's later examples use: ``HsuanwuEngine(cfgs, env, test_env).invoke()``."""

    def __init__(self, cfgs: Mapping[str, Any] | str | Path, train_env: Any, test_env: Any = None) -> None:
        """Arguments:
        cfgs: The configuration: a DictConfig, a dict, or the path of a YAML file.
        train_env: Vector environments to train in.
        test_env: Vector environments to evaluate in; None evaluates never.
        """
        self.trainer = OnPolicyTrainer(cfgs, train_env, test_env)

    def invoke(self) -> None:
        """Train."""
        self.trainer.train()


Engine = HsuanwuEngine


def _make_learner(settings: TrainerSettings, observation_space: Space, action_space: Space) -> BaseLearner:
    _check_spaces(settings, observation_space, action_space)
    dist = PARTS.find("xplore.distribution", settings.distribution) if is_named(settings.distribution) else None
    feature_dim = settings.encoder.get("feature_dim")
    known = {} if feature_dim is None else {"feature_dim": feature_dim}
    spaces = {"observation_space": observation_space, "action_space": action_space}
    learner: BaseLearner = PARTS.make(
        "xploit.learner", _without_spaces(settings.learner), "PPGLearner", **spaces, device=settings.device, **known
    )
    if dist is not None:
        learner.dist = dist
    if is_named(settings.encoder):
        learner.encoder = PARTS.make(
            "xploit.encoder",
            _without_spaces(settings.encoder),
            observation_space=observation_space,
            feature_dim=learner.feature_dim,
        )
    if settings.is_used("augmentation"):
        learner.aug = PARTS.make("xplore.augmentation", settings.augmentation)
    if settings.is_used("reward"):
        learner.irs = PARTS.make("xplore.reward", settings.reward)
        if settings.pretraining:
            learner.irs.extrinsic_coef = 0.0
    return learner


def _make_storage(settings: TrainerSettings, learner: BaseLearner, num_envs: int) -> VanillaRolloutStorage:
    actions = describe_action_space(learner.action_space)
    storage: VanillaRolloutStorage = PARTS.make(
        "xploit.storage",
        settings.storage,
        "VanillaRolloutStorage",
        device=settings.device,
        obs_shape=learner.observation_space.shape,
        action_shape=actions["shape"],
        action_type=actions["type"],
        num_steps=settings.num_steps,
        num_envs=num_envs,
    )
    storage.fit_number_type(learner.observation_space.dtype)
    learner.check_storage(storage)
    if storage.num_envs != num_envs:
        raise ValueError(f"the storage was made for {storage.num_envs} environments, there are {num_envs}")
    return storage


def _without_spaces(part: Part) -> Part:
    return {key: value for key, value in part.items() if key not in ("observation_space", "action_space")}


def _check_spaces(settings: TrainerSettings, observation_space: Space, action_space: Space) -> None:
    """Spaces that a configuration writes down must be the environment's, which are used."""
    for name, part in (("encoder", settings.encoder), ("learner", settings.learner)):
        if written := part.get("observation_space"):
            declared, actual = to_observation_space(written).shape, to_observation_space(observation_space).shape
            if declared != actual:
                raise ValueError(f"the {name}'s observation_space has shape {declared}, the environment shows {actual}")
        if written := part.get("action_space"):
            described, own = describe_action_space(to_action_space(written)), describe_action_space(action_space)
            if any(described[key] != own[key] for key in ("type", "shape")):
                raise ValueError(f"the {name}'s action_space is {described}, the environment's {own}")
