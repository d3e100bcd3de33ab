"""Hsuanwu's trainer: a configuration and two environments become a training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from proximo.agents.on_policy import set_random_seed
from proximo.data import Metrics
from proximo.functional.spaces import Space
from proximo.hsuanwu.common.engine.configuration import Part, TrainerSettings, find_part, make_part, read_settings
from proximo.hsuanwu.common.spaces import describe_action_space, to_action_space, to_observation_space
from proximo.hsuanwu.xploit.learner import PPGLearner
from proximo.hsuanwu.xploit.storage import VanillaRolloutStorage
from proximo.networks.actor_critic import get_device
from proximo.rllte.common.prototype.base_agent import to_vec_env
from proximo.rllte.common.prototype.on_policy_agent import OnPolicyAgent
from proximo.rllte.xploit.policy.actor_critic import NetworkPolicy


class OnPolicyTrainer:
    """Trains the learner that a configuration names, with its encoder and storage.

    ``cfgs`` is a DictConfig, a dict or the path of a YAML file. A part is named by ``name: PPGLearner`` or by
    ``_target_: proximo.hsuanwu.xploit.learner.PPGLearner``; spaces, sizes and device come from environment and
    configuration where the part says nothing. Environments are those of :mod:`proximo.hsuanwu.env`, or anything else
    that can be stepped. Files go to ``logs/{experiment}/{time}``; the process stays in its folder.
    """

    def __init__(self, cfgs: Mapping[str, Any] | str | Path, train_env: Any, test_env: Any = None) -> None:
        self.settings = settings = read_settings(cfgs)
        env = to_vec_env(train_env)
        if settings.num_envs not in (None, env.num_envs):
            raise ValueError(f"num_envs is {settings.num_envs}, the training environment has {env.num_envs}")
        set_random_seed(settings.seed, using_cuda=get_device(settings.device).type == "cuda")
        self.learner = _make_learner(settings, env.observation_space, env.action_space)
        self.storage = _make_storage(settings, self.learner, env.num_envs)
        self._agent = LearnerAgent(self.learner, self.storage, settings, train_env, test_env)

    @property
    def global_step(self) -> int:
        return self._agent.global_step

    @property
    def work_dir(self) -> Path | None:
        """Where the files of the latest training are."""
        return self._agent.work_dir

    def train(self) -> None:
        """Train for ``num_train_steps``, testing every ``test_every_episodes`` updates; log and save."""
        settings = self.settings
        self._agent.train(
            settings.num_train_steps,
            eval_interval=settings.test_every_episodes,
            num_eval_episodes=settings.num_test_episodes,
        )

    def test(self) -> dict[str, float]:
        """Play ``num_test_episodes`` episodes with the likeliest actions.

        Returns ``step``, ``episode``, ``episode_length``, ``episode_reward`` and ``total_time``.
        """
        return self._agent.eval(self.settings.num_test_episodes)

    def save(self, path: str | Path | None = None) -> Path:
        """Write weights, optimisers and counters as one safe file; returns where."""
        return self._agent.save(path)

    def load(self, path: str | Path) -> None:
        """Go on from a file of :meth:`save`, in a trainer made with the same configuration."""
        self._agent.load(path)


def _make_learner(settings: TrainerSettings, observation_space: Space, action_space: Space) -> PPGLearner:
    _check_spaces(settings, observation_space, action_space)
    dist = find_part("xplore.distribution", settings.distribution) if _named(settings.distribution) else None
    feature_dim = settings.encoder.get("feature_dim")
    known = {} if feature_dim is None else {"feature_dim": feature_dim}
    spaces = {"observation_space": observation_space, "action_space": action_space}
    learner: PPGLearner = make_part(
        "xploit.learner", _without_spaces(settings.learner), "PPGLearner", **spaces, device=settings.device, **known
    )
    if dist is not None:
        learner.dist = dist
    if _named(settings.encoder):
        encoder: nn.Module = make_part(
            "xploit.encoder",
            _without_spaces(settings.encoder),
            "",
            observation_space=observation_space,
            feature_dim=learner.feature_dim,
        )
        learner.encoder = encoder
    return learner


def _make_storage(settings: TrainerSettings, learner: PPGLearner, num_envs: int) -> VanillaRolloutStorage:
    actions = describe_action_space(learner.action_space)
    storage: VanillaRolloutStorage = make_part(
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


def _named(part: Part) -> bool:
    return part.get("name") is not None or "_target_" in part


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


class LearnerPolicy(NetworkPolicy):
    """A learner's network as rllte's agents see it."""

    def __init__(self, learner: PPGLearner) -> None:
        super().__init__(learner.observation_space, learner.action_space, learner.feature_dim, learner.hidden_dim)
        self.network = learner.network

    @property
    def optimizers(self) -> dict[str, Any]:
        return {"opt": self.network.optimizer}

    def freeze(self, encoder: Any, dist: Any = None) -> None:
        """Nothing to build."""


class LearnerAgent(OnPolicyAgent):
    """The loop of rllte's agents around a learner."""

    def __init__(
        self, learner: PPGLearner, storage: VanillaRolloutStorage, settings: TrainerSettings, env: Any, eval_env: Any
    ) -> None:
        super().__init__(
            env, eval_env, settings.experiment, settings.seed, settings.device, num_steps=storage.num_steps
        )
        self.learner, self.storage, self.policy = learner, storage, LearnerPolicy(learner)
        self.encoder = learner.encoder  # type: ignore[assignment]
        self.updates = 0

    def _bind_backend(self) -> None:
        self.runtime = self.learner.runtime

    def update(self) -> Metrics:
        self.storage.store_next_observations(self._collector.current_observations())
        metrics = self.learner.update(self.storage, episode=self.updates)
        self.updates += 1
        return metrics

    def _state(self) -> dict[str, Any]:
        # without the rollouts of an unfinished phase, which may be gigabytes: a loaded trainer begins the phase again
        moments: dict[str, Tensor] = self.learner.auxiliary_state()
        return super()._state() | {"auxiliary_optimizer": moments, "updates": self.updates}

    def _load_state(self, state: dict[str, Any]) -> None:
        super()._load_state(state)
        self.updates = int(state["updates"])
        self.learner.load_auxiliary_state(state["auxiliary_optimizer"], self.storage)
