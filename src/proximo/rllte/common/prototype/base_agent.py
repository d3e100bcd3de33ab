"""The base of agents in rllte's shape: the environment, the modules that make an agent, and its files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from proximo.agents.on_policy import set_random_seed
from proximo.data import Metrics
from proximo.envs import VecEnv, as_vec_env
from proximo.errors import ModelFileError
from proximo.files.archive import read_archive, write_archive
from proximo.files.encoding import decode, encode
from proximo.functional.spaces import Space, check_for_correct_spaces, obs_as_tensor, preprocess_obs
from proximo.networks.actor_critic import get_device
from proximo.networks.published_encoders import BaseEncoder
from proximo.rllte.common.preprocessing import process_action_space, process_observation_space
from proximo.rllte.xploit.policy.actor_critic import NetworkPolicy
from proximo.rllte.xploit.policy.base import BasePolicy
from proximo.rllte.xploit.policy.distributions import adapt_distribution
from proximo.rllte.xploit.storage.rollout_storage import VanillaRolloutStorage
from proximo.rllte.xplore.distribution.base import BaseDistribution
from proximo.rollout.storage import allocate_observations
from proximo.training.loggers import Logger, announce
from proximo.training.run_folder import file_name, make_unique_folder


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
        self.env, self.eval_env = env, eval_env
        self.vec_env = to_vec_env(env)
        self.observation_space: Space = self.vec_env.observation_space
        self.action_space: Space = self.vec_env.action_space
        self.num_envs = self.vec_env.num_envs
        if eval_env is not None:
            check_for_correct_spaces(to_vec_env(eval_env), self.observation_space, self.action_space)
        self.obs_shape = process_observation_space(self.observation_space)
        self.action_shape, self.action_dim, self.policy_action_dim, self.action_type = process_action_space(
            self.action_space
        )
        self.tag = tag
        self.seed = seed
        self.device = get_device(device)
        self.pretraining = pretraining
        set_random_seed(seed, using_cuda=self.device.type == "cuda")
        self.generator = np.random.default_rng(seed)
        self.encoder = self.policy = self.storage = None
        self.dist: Any = None
        self.aug: Any = None
        self.irs: Any = None
        self.global_step = 0
        self.global_episode = 0
        self.metrics: Metrics = {}
        self.logger = Logger(None, [])  # one with files takes its place when training starts
        self.training = True
        self.work_dir: Path | None = None
        self.feature_dim: int | None = None  # what the agent was asked for, where it makes its own policy
        self._frozen = False

    # -- modules

    def set(
        self,
        encoder: BaseEncoder | None = None,
        policy: BasePolicy | None = None,
        storage: VanillaRolloutStorage | None = None,
        distribution: Any = None,
        augmentation: Any = None,
        reward: Any = None,
    ) -> None:
        """Put modules in place, before training; what does not fit the agent is an error at once."""
        network = {"encoder": encoder, "policy": policy, "distribution": distribution}
        given = [name for name, part in network.items() if part is not None]
        if self._frozen and given:
            raise ValueError(
                f"the network is built and may be trained: {', '.join(given)} can only be set before train(), eval() "
                "or freeze(); make a new agent"
            )
        # nothing changes before everything has been checked
        _check_objects(network | {"storage": storage, "augmentation": augmentation, "reward": reward})
        if policy is not None:
            self._check_policy(policy)
        if storage is not None:
            self._check_storage(storage)
        adapt_distribution(distribution, self.action_space)
        self._check_augmentation(augmentation)
        _check_callable("reward", reward, getattr(reward, "compute", None), "a reward with compute(samples, sync)")
        encoder = self.encoder if encoder is None else encoder
        policy = self.policy if policy is None else policy
        if encoder is not None:
            self._check_encoder(encoder, policy)
        self.encoder, self.policy = encoder, policy
        self.storage = self.storage if storage is None else storage
        self.dist = self.dist if distribution is None else distribution
        self.aug = self.aug if augmentation is None else augmentation
        self.irs = self.irs if reward is None else reward

    def _check_policy(self, policy: BasePolicy) -> None:
        _check_kind("policy", policy, BasePolicy)
        self._check_space("policy", policy)

    def _check_space(self, name: str, part: Any) -> None:
        for kind in ("observation_space", "action_space"):
            if getattr(part, kind) != getattr(self, kind):
                raise ValueError(
                    f"the {name} was made for the {kind.replace('_', ' ')} {getattr(part, kind)}, the environment has "
                    f"{getattr(self, kind)}; make it with {kind}=env.{kind}"
                )

    def _check_encoder(self, encoder: BaseEncoder, policy: BasePolicy | None) -> None:
        """Raise when an encoder's features are not as many as it says, or not as many as the policy expects."""
        _check_kind("encoder", encoder, BaseEncoder)
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

    def _check_augmentation(self, augmentation: Any) -> None:
        """Raise when an augmentation changes the shape of the observations, which the encoder reads."""
        _check_callable("augmentation", augmentation, augmentation, "a function of a batch of observations")
        if augmentation is None or not isinstance(self.observation_space, spaces.Box):
            return
        batch = torch.zeros(2, *self.observation_space.shape, device=self.device)
        shape = tuple(augmentation(batch).shape)
        if shape != batch.shape:
            raise ValueError(
                f"{type(augmentation).__name__} makes {shape[1:]} of observations of {self.observation_space.shape}; "
                "choose its size so that the shape stays as it is"
            )

    def check(self) -> None:
        """Raise when a module is missing, or when pre-training has no intrinsic reward."""
        missing = [name for name in ("encoder", "policy", "storage") if getattr(self, name) is None]
        if missing:
            raise ValueError(f"{type(self).__name__} lacks {', '.join(missing)}; call set({missing[0]}=…) first")
        if self.pretraining and self.irs is None:
            raise ValueError(
                "pretraining=True sets the environment's rewards to zero, so an intrinsic reward is needed: call "
                "set(reward=…), for example proximo.rllte.xplore.reward.RE3(envs=env, device=…)"
            )

    def freeze(self, init_model_path: str | Path | None = None, th_compile: bool = False) -> None:
        """Build the network from the modules, once; then take weights from a file, if one is given."""
        self.check()
        if not self._frozen:
            set_random_seed(self.seed, using_cuda=self.device.type == "cuda")
            self.policy.freeze(encoder=self.encoder, dist=self.dist)
            self.policy.to(self.device)
            self._frozen = True
            self._bind()
        if init_model_path is not None:
            self.policy.load_state_dict(self._read(init_model_path)["policy"])
        if th_compile:
            self._compile()

    def _bind(self) -> None:  # noqa: B027 - optional
        """Called when the network has just been built."""

    def _compile(self) -> None:
        if isinstance(self.policy, NetworkPolicy):
            self.policy.compile_network()
        else:
            self.policy.compile()

    def mode(self, training: bool = True) -> None:
        """Training or evaluation mode of the policy's layers."""
        self.training = training
        self.policy.train(training)

    # -- training

    @abstractmethod
    def update(self) -> Metrics | None:
        """Train on the storage; returns metrics such as ``train/policy_loss``."""

    # -- files

    def _make_work_dir(self) -> Path:
        stamp = datetime.now().strftime("%Y-%m-%d-%H-%M-%S")
        return make_unique_folder(Path("logs").resolve() / file_name(self.tag) / stamp)

    def save(self, path: str | Path | None = None) -> Path:
        """Write weights, optimisers and counters as one safe file; returns where.

        Without a path: ``model/agent_{step}.zip`` in the run's folder, ``pretrained/pretrained_{step}.zip`` when
        pre-training.
        """
        self.freeze()
        if path is None:
            self.work_dir = self.work_dir or self._make_work_dir()
            kind, name = ("pretrained", "pretrained") if self.pretraining else ("model", "agent")
            path = self.work_dir / kind / f"{name}_{self.global_step}.zip"
        tensors: dict[str, torch.Tensor] = {}
        structure = encode(self._state(), tensors)
        manifest = {"content": "rllte agent", "agent": type(self).__name__, "state": structure}
        return write_archive(path, manifest, {"state": tensors}) or Path(path)

    def load(self, path: str | Path) -> None:
        """Go on from a file of :meth:`save`, in an agent made with the same arguments; nothing in it is executed."""
        self.freeze()
        state = self._read(path)
        try:
            self._load_state(state)
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{path} does not fit this {type(self).__name__} ({type(error).__name__}: {error}); load it into an "
                "agent made with the arguments it was saved with"
            ) from error

    def _read(self, path: str | Path) -> dict[str, Any]:
        manifest: dict[str, Any]
        manifest, tensors = read_archive(path)
        if manifest.get("content") != "rllte agent":
            raise ModelFileError(
                f"{path} holds a {manifest.get('content')!r}, not an agent of proximo.rllte; load it with what saved it"
            )
        state = decode(manifest["state"], tensors["state"])
        if not isinstance(state, dict) or "policy" not in state:
            raise ModelFileError(f"{path} holds no policy")
        return state

    def _state(self) -> dict[str, Any]:
        """All that decides how the training goes on, but for the environments."""
        return {
            "policy": self.policy.state_dict(),
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.policy.optimizers.items()},
            "generator": self.generator.bit_generator.state,
            "reward": self.irs.state_dict() if hasattr(self.irs, "state_dict") else None,
            "global_step": self.global_step,
            "global_episode": self.global_episode,
        }

    def _load_state(self, state: dict[str, Any]) -> None:
        self.policy.load_state_dict(state["policy"])
        for name, optimizer in self.policy.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.generator.bit_generator.state = state["generator"]
        if state["reward"] is not None and hasattr(self.irs, "load_state_dict"):
            self.irs.load_state_dict(state["reward"])
        self.global_step, self.global_episode = int(state["global_step"]), int(state["global_episode"])

    def announce(self, message: str) -> None:
        announce(f"[{self.tag}] {message}")


def to_vec_env(env: Any) -> VecEnv:
    """The library's vector environment under rllte's tensors; anything else that can be stepped is taken too."""
    inner = getattr(env, "vec_env", None)
    return inner if isinstance(inner, VecEnv) else as_vec_env(env)


def _check_kind(name: str, part: Any, kind: type) -> None:
    if not isinstance(part, kind):
        raise TypeError(f"{name} is {part!r:.80}; expected a subclass of {kind.__name__}")


def _check_objects(parts: Mapping[str, Any]) -> None:
    """Refuse a class where an object is meant; a distribution of torch may be given as its class."""
    for name, part in parts.items():
        if isinstance(part, type) and (name != "distribution" or issubclass(part, BaseDistribution)):
            raise TypeError(f"{name} is the class {part.__name__}; pass an object of it, {part.__name__}(…)")
    _check_callable("distribution", parts["distribution"], parts["distribution"], "a distribution")


def _check_callable(name: str, part: Any, called: Any, expected: str) -> None:
    if part is not None and not callable(called):
        raise TypeError(f"{name} is {part!r:.80}; expected {expected}")


def output_width(encoder: torch.nn.Module, space: Space) -> int:
    """How many features an encoder gives for one observation of the space."""
    observations = allocate_observations(space, (1, 2))
    rows = {key: part[0] for key, part in observations.items()} if isinstance(observations, dict) else observations[0]
    tensors = obs_as_tensor(rows, next((part.device for part in encoder.parameters()), torch.device("cpu")))
    was_training = encoder.training
    try:
        with torch.no_grad():
            features = encoder.eval()(preprocess_obs(tensors, space, normalize_images=False))
    except RuntimeError as error:
        raise ValueError(f"{type(encoder).__name__} cannot read observations of {space}: {error}") from error
    finally:
        encoder.train(was_training)
    if features.dim() != 2 or len(features) != 2:
        raise ValueError(
            f"{type(encoder).__name__} gives shape {tuple(features.shape)} for two observations of {space}; "
            "expected [batch, feature_dim]"
        )
    return int(features.shape[1])
