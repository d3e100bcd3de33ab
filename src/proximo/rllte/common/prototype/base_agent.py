"""The base of agents in rllte's shape: the environment, the modules, and what fits what."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from proximo.agents.on_policy import set_random_seed
from proximo.augmentation import check_augmentation
from proximo.data import Metrics
from proximo.envs import as_vec_env
from proximo.exploration import IntrinsicReward
from proximo.functional.spaces import Space, check_for_correct_spaces, describe_action_space, get_obs_shape
from proximo.networks.actor_critic import get_device
from proximo.networks.distributions.adapted import adapt_distribution
from proximo.networks.distributions.batches import BaseDistribution
from proximo.networks.published_encoders import BaseEncoder, output_width
from proximo.rllte.common.prototype.base_policy import BasePolicy
from proximo.rollout.tensor_storage import VanillaRolloutStorage

ATTRIBUTES = {"distribution": "dist", "augmentation": "aug", "reward": "irs"}  # of modules that set() calls otherwise


class BaseAgent(ABC):
    """An environment and the modules that learn in it: encoder, policy, storage, distribution, and two that may be.

    Modules are replaced with :meth:`set` until :meth:`freeze` builds the network, which training does first. The
    constructor makes no folder and changes none: a run's files go to ``logs/{tag}/{time}``, made when they are.
    """

    encoder: BaseEncoder | None
    policy: Any  # a BasePolicy; None until one is set
    storage: Any  # a VanillaRolloutStorage; None until one is set

    def __init__(
        self,
        env: Any,
        eval_env: Any = None,
        tag: str = "default",
        seed: int = 1,
        device: str = "cpu",
        pretraining: bool = False,
    ) -> None:
        """Arguments:
        env: Vector environments to train in, or anything that can be made one.
        eval_env: Environments to evaluate in, of the same spaces; None evaluates never.
        tag: Name of the run: files go to logs/{tag}/{time}.
        seed: Seed of Python's, NumPy's and torch's generators.
        device: Where the network learns: cpu, cuda, cuda:1, …
        pretraining: Whether the environment's rewards count as 0; an intrinsic reward is needed then.
        """
        self.env, self.eval_env = env, eval_env
        self.vec_env = as_vec_env(env)
        self.observation_space: Space = self.vec_env.observation_space
        self.action_space: Space = self.vec_env.action_space
        self.num_envs = self.vec_env.num_envs
        if eval_env is not None:
            check_for_correct_spaces(as_vec_env(eval_env), self.observation_space, self.action_space)
        self.obs_shape = get_obs_shape(self.observation_space)
        self.action_shape, self.action_dim, self.policy_action_dim, self.action_type = describe_action_space(
            self.action_space
        )
        self.tag, self.seed, self.pretraining = tag, seed, pretraining
        self.device = get_device(device)
        set_random_seed(seed, using_cuda=self.device.type == "cuda")
        self.encoder = self.policy = self.storage = None
        self.dist: Any = None
        self.aug: Any = None
        self.irs: Any = None
        self.global_step = 0
        self.global_episode = 0
        self.metrics: Metrics = {}
        self.training = True
        self.work_dir: Path | None = None
        self.feature_dim: int | None = None  # what the agent was asked for, where it makes its own policy
        self._frozen = False

    def set(
        self,
        encoder: BaseEncoder | None = None,
        policy: Any | None = None,
        storage: VanillaRolloutStorage | None = None,
        distribution: Any = None,
        augmentation: Any = None,
        reward: Any = None,
    ) -> None:
        """Put modules in place, before training; what does not fit the agent is an error at once."""
        given = {name: part for name, part in locals().items() if name != "self" and part is not None}
        built = [name for name in given if name not in ("storage", "reward")]
        if self._frozen and built:
            raise ValueError(
                f"the network is built and may be trained: {', '.join(built)} can only be set before train(), eval() "
                "or freeze(); make a new agent"
            )
        # nothing changes before everything has been checked
        for name, part in given.items():
            _check_object(name, part)
            getattr(self, f"_check_{name}")(part)
        if "encoder" in given or "policy" in given:
            self._check_widths(encoder or self.encoder, policy or self.policy)
        for name, part in given.items():
            setattr(self, ATTRIBUTES.get(name, name), part)

    def _check_policy(self, policy: Any) -> None:
        _check_kind("policy", policy, BasePolicy)
        self._check_space("policy", policy)

    def _check_encoder(self, encoder: BaseEncoder) -> None:
        _check_kind("encoder", encoder, BaseEncoder)

    def _check_storage(self, storage: VanillaRolloutStorage) -> None:
        _check_kind("storage", storage, VanillaRolloutStorage)
        self._check_space("storage", storage)
        if storage.num_envs != self.num_envs:
            raise ValueError(
                f"the storage was made for {storage.num_envs} environments, the agent has {self.num_envs}; make it "
                f"with num_envs={self.num_envs}"
            )
        if type(storage).add is not VanillaRolloutStorage.add:
            raise TypeError(
                f"{type(storage).__name__} overrides add(), which training does not call: rollouts are collected into "
                "storage.buffer at once; override compute_returns_and_advantages() or sample()"
            )

    def _check_distribution(self, distribution: Any) -> None:
        if not callable(distribution):
            raise TypeError(f"distribution is {distribution!r:.80}; expected a distribution")
        adapt_distribution(distribution, self.action_space)

    def _check_augmentation(self, augmentation: Any) -> None:
        check_augmentation(augmentation, self.observation_space)

    def _check_reward(self, reward: Any) -> None:
        _check_kind("reward", reward, IntrinsicReward)

    def _check_space(self, name: str, part: Any) -> None:
        for kind in ("observation_space", "action_space"):
            if getattr(part, kind) != getattr(self, kind):
                raise ValueError(
                    f"the {name} was made for the {kind.replace('_', ' ')} {getattr(part, kind)}, the environment has "
                    f"{getattr(self, kind)}; make it with {kind}=env.{kind}"
                )

    def _check_widths(self, encoder: BaseEncoder | None, policy: Any | None) -> None:
        """Raise when an encoder's features are not as many as it says, or not as many as the policy expects."""
        if encoder is None:
            return
        width = output_width(encoder, self.observation_space)
        if width != encoder.feature_dim:
            raise ValueError(
                f"{type(encoder).__name__} gives {width} features, but says feature_dim {encoder.feature_dim}; its "
                "forward() must return [batch, feature_dim]"
            )
        if policy is None or width == policy.feature_dim:
            return
        if width != self.feature_dim:
            raise ValueError(
                f"{type(encoder).__name__} gives feature_dim {width}, but the policy expects {policy.feature_dim}; "
                f"make both alike (for the agents of this library: {type(self).__name__}(env, feature_dim={width}, …))"
            )
        policy.feature_dim = width  # vectors, whose default encoder changes nothing, may get another one

    def check(self) -> None:
        """Raise when a module is missing, or when pre-training has no intrinsic reward."""
        missing = [name for name in ("encoder", "policy", "storage") if getattr(self, name) is None]
        if missing:
            raise ValueError(f"{type(self).__name__} lacks {', '.join(missing)}; call set({missing[0]}=…) first")
        if self.pretraining and self.irs is None:
            raise ValueError(
                "pretraining=True sets the environment's rewards to zero, so an intrinsic reward is needed: call "
                "set(reward=…), with RE3, say"
            )

    def mode(self, training: bool = True) -> None:
        """Training or evaluation mode of the policy's layers."""
        self.training = training
        self.policy.train(training)

    @abstractmethod
    def freeze(self, init_model_path: str | Path | None = None, th_compile: bool = False) -> None:
        """Build the network from the modules, once."""

    @abstractmethod
    def update(self) -> Metrics | None:
        """Train on the storage; returns metrics such as ``train/policy_loss``."""


def _check_kind(name: str, part: Any, kind: type) -> None:
    if not isinstance(part, kind):
        raise TypeError(f"{name} is {part!r:.80}; expected a subclass of {kind.__name__}")


def _check_object(name: str, part: Any) -> None:
    """Refuse a class where an object is meant; a distribution of torch may be given as its class."""
    if isinstance(part, type) and (name != "distribution" or issubclass(part, BaseDistribution)):
        raise TypeError(f"{name} is the class {part.__name__}; pass an object of it, {part.__name__}(…)")
