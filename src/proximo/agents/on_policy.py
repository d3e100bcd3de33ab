"""What all on-policy algorithms share: environment, policy, buffer, backend, ``learn`` and ``predict``."""

from __future__ import annotations

import random
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np
import torch

from proximo.agents.checks import (
    check_policy_reads_observations,
    check_spaces,
    checked_buffer_class,
)
from proximo.backends.choice import BackendChoice, make_backend
from proximo.backends.fused import FusedBackend
from proximo.backends.torch_backend import TorchBackend
from proximo.config import OnPolicyConfig
from proximo.data import Array, Info, Observation, Schedule
from proximo.envs import VecEnv, VecNormalize, as_vec_env, unwrap_vec_normalize
from proximo.errors import near_matches
from proximo.functional.schedules import FloatSchedule
from proximo.functional.spaces import Space, check_for_correct_spaces
from proximo.networks.actor_critic import (
    POLICY_ALIASES,
    ActorCriticPolicy,
    RecurrentState,
    get_device,
)
from proximo.networks.flat_parameters import FlatParameters
from proximo.networks.recurrent import RECURRENT_POLICY_ALIASES
from proximo.persistence import model_files as files
from proximo.persistence import training_state
from proximo.rollout.collector import Collector, RewardShaper
from proximo.rollout.masks import MaskReader
from proximo.rollout.minibatches import longest_sequence
from proximo.rollout.storage import RolloutBuffer, is_stock
from proximo.training.callbacks import BaseCallback, CallbackList, ProgressBarCallback, as_callback
from proximo.training.loggers import Logger, configure_logger
from proximo.training.loop import CallbackListener, Trainer

OnNonFinite = Literal["raise", "skip"]
# a function of the training loop's locals and globals ends the training by returning False
MaybeCallback: TypeAlias = BaseCallback | Sequence[BaseCallback] | Callable[[Any, Any], bool | None] | None


def set_random_seed(seed: int, using_cuda: bool = False) -> None:
    """Seed Python's, NumPy's and torch's global generators."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the global generator is what users' code draws from
    torch.manual_seed(seed)
    if using_cuda:
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False


class OnPolicyAlgorithm(ABC):
    """The front door of an on-policy algorithm, in the shape of Stable-Baselines3's.

    A subclass names its ``config_class`` and implements :meth:`train`. Hyperparameters are plain attributes, read anew
    for every update, so a callback may change them while training.
    """

    policy_aliases: ClassVar[Mapping[str, type[ActorCriticPolicy]]] = {**POLICY_ALIASES, **RECURRENT_POLICY_ALIASES}
    config_class: ClassVar[type[OnPolicyConfig]]
    run_name: ClassVar[str] = "OnPolicyAlgorithm"  # of TensorBoard runs

    policy: ActorCriticPolicy
    rollout_buffer: RolloutBuffer
    observation_space: Space
    action_space: Space
    lr_schedule: Schedule
    n_steps: int
    gamma: float
    gae_lambda: float
    learning_rate: float | Schedule

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: Any,
        config: OnPolicyConfig,
        *,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: type[RolloutBuffer] | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        monitor_wrapper: bool = True,
        backend: BackendChoice = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        for name, value in config.as_dict().items():
            setattr(self, name, value)
        self.policy_class = self._resolve_policy(policy)
        self.policy_kwargs = dict(policy_kwargs or {})
        if not isinstance(sde_sample_freq, int):
            raise TypeError(f"sde_sample_freq is {sde_sample_freq!r}; expected a number of steps, or -1 for a rollout")
        self.use_sde, self.sde_sample_freq = use_sde, sde_sample_freq
        self.rollout_buffer_class = checked_buffer_class(rollout_buffer_class)
        self.rollout_buffer_kwargs = dict(rollout_buffer_kwargs or {})
        self.tensorboard_log = tensorboard_log
        self.verbose = verbose
        self.seed = seed
        self.device = get_device(device)
        self.generator = np.random.default_rng(0)  # seeded by _setup_model; draws exploration noise and minibatches
        self.num_timesteps = 0
        self.start_time = 0
        self.ep_info_buffer: deque[Info] = deque(maxlen=stats_window_size)
        self.ep_success_buffer: deque[bool] = deque(maxlen=stats_window_size)
        self._stats_window_size = stats_window_size
        self._monitor_wrapper = monitor_wrapper
        self._backend_choice: BackendChoice = backend
        self._total_timesteps = 0
        self._num_timesteps_at_start = 0
        self._current_progress_remaining = 1.0
        self._n_updates = 0
        self._iteration = 0  # of the current training
        self._callback: BaseCallback | None = None  # of the current training
        self._loaded_statistics: dict[str, Array] | None = None  # of the VecNormalize that the loaded model had
        self._training_state: Mapping[str, Any] | None = None  # of the checkpoint that the model was loaded from
        self.companions: dict[str, Any] = {}  # what trains beside the policy and has state_dict and load_state_dict
        self.on_non_finite: OnNonFinite = "raise"
        self.reward_shaper: RewardShaper | None = None  # changes rewards before the advantages are estimated
        self._logger: Logger | None = None
        self._custom_logger = False
        self.env: VecEnv | None = None
        self.n_envs = 1
        self._collector: Collector | None = None
        if env is not None:
            self._take_env(as_vec_env(env, monitor=monitor_wrapper, verbose=verbose))
            config.check_environments(self.n_envs)
        if _init_setup_model:
            self._setup_model()

    # -- construction

    def _resolve_policy(self, policy: str | type[ActorCriticPolicy]) -> type[ActorCriticPolicy]:
        if isinstance(policy, str):
            if policy not in self.policy_aliases:
                raise ValueError(f"unknown policy {policy!r}; {near_matches(policy, self.policy_aliases)}")
            return self.policy_aliases[policy]
        if not (isinstance(policy, type) and issubclass(policy, ActorCriticPolicy)):
            raise TypeError(
                f"policy is {policy!r}; expected one of {', '.join(self.policy_aliases)} or a subclass of "
                "proximo.networks.ActorCriticPolicy (proximo.sb3.common.policies names it too)"
            )
        return policy

    def _take_env(self, env: VecEnv) -> None:
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._check_spaces()
        self.n_envs = env.num_envs
        self.env = env
        self._collector = Collector(env, self.ep_info_buffer, self.ep_success_buffer)
        if (normalizer := self.get_vec_normalize_env()) is not None:
            if self._loaded_statistics is not None and normalizer.has_seen_nothing():
                normalizer.load_state(self._loaded_statistics)
            self._loaded_statistics = None  # from here on they are the environment's

    def _check_spaces(self) -> None:
        check_spaces(self.observation_space, self.action_space, self.use_sde)
        known = {**POLICY_ALIASES, **self.policy_aliases}
        check_policy_reads_observations(self.policy_class, known, self.observation_space, self.policy_kwargs)

    def _setup_model(self) -> None:
        """Make buffer, policy and backend; seeds come first, so that networks start alike."""
        self._setup_lr_schedule()
        self.set_random_seed(self.seed)
        self.rollout_buffer = self._make_buffer()
        self.policy = self.policy_class(
            self.observation_space, self.action_space, self.lr_schedule, use_sde=self.use_sde, **self.policy_kwargs
        ).to(self.device)
        self._bind_backend()

    def _make_buffer(self) -> RolloutBuffer:
        buffer = self.rollout_buffer_class(
            self.n_steps,
            self.observation_space,
            self.action_space,
            device=self.device,
            gae_lambda=self.gae_lambda,
            gamma=self.gamma,
            n_envs=self.n_envs,
            **self.rollout_buffer_kwargs,
        )
        if self.policy_class.recurrent:
            buffer.rollout.sequence_length = self._sequence_length()
        return buffer

    def _sequence_length(self) -> int:
        """Steps per training sequence of a policy with memory."""
        batch_size = getattr(self, "batch_size", self.n_steps)
        for name, value in {"n_steps": self.n_steps, "batch_size": batch_size}.items():
            if value < 2:
                raise ValueError(
                    f"a policy with memory trains on sequences, but {name} is {value}; choose 2 or more, such as 128"
                )
        return longest_sequence(self.n_steps, batch_size)

    def _setup_lr_schedule(self) -> None:
        self.lr_schedule = FloatSchedule(self.learning_rate)

    def _bind_backend(self) -> None:
        """Move the parameters into flat memory and choose who runs them."""
        flat = FlatParameters(self.policy, self.policy.optimizer)
        obstacle = None
        if not is_stock(self.rollout_buffer):  # kernels read the memory, and would pass by a subclass's get()
            obstacle = f"rollout buffer is {type(self.rollout_buffer).__name__}"
        previous: FusedBackend | TorchBackend | None = getattr(self, "_backend", None)
        self._backend = make_backend(
            self.policy, flat, self.generator, self._backend_choice, obstacle, self.sde_sample_freq
        )
        if previous is not None and self.policy.recurrent:
            self._backend.states = previous.states  # what a policy with memory remembers outlives a new binding
        if self.verbose >= 1:
            print(f"Using {self.device} device, backend {self._backend.description}")  # noqa: T201

    def _current_backend(self) -> FusedBackend | TorchBackend:
        """The backend, bound anew when the user replaced the policy, a part of it, or the optimiser or its state."""
        flat = self._backend.flat
        same = flat.module is self.policy and flat.optimizer is self.policy.optimizer
        if not (same and self._backend.is_current()):
            self._bind_backend()
        return self._backend

    @property
    def backend(self) -> str:
        """Which backend runs the policy, and why: ``"fused"`` or ``"torch: features extractor is NatureCNN"``."""
        return self._backend.description

    # -- environment and logger

    def get_env(self) -> VecEnv | None:
        return self.env

    def get_vec_normalize_env(self) -> VecNormalize | None:
        return None if self.env is None else unwrap_vec_normalize(self.env)

    def normalizer_statistics(self) -> dict[str, Array] | None:
        """Of the environment's ``VecNormalize``; without one, those that the model's file held for an env to come."""
        normalizer = self.get_vec_normalize_env()
        return self._loaded_statistics if normalizer is None else normalizer.state()

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Train on another environment of the same spaces and number."""
        wrapped = as_vec_env(env, monitor=self._monitor_wrapper, verbose=self.verbose)
        if wrapped.num_envs != self.n_envs:
            raise ValueError(
                f"the model was made for {self.n_envs} environments, this one has {wrapped.num_envs}; to change the "
                f"number, save the model and call {type(self).__name__}.load(path, env=env)"
            )
        check_for_correct_spaces(wrapped, self.observation_space, self.action_space)
        previous = self._collector
        self._take_env(wrapped)
        if not force_reset and previous is not None and self._collector is not None:
            self._collector.observations = previous.observations
            self._collector.episode_starts = previous.episode_starts

    # what subclasses with a ``collect_rollouts`` of their own read and write: the collector's place in the episodes

    def _required_collector(self) -> Collector:
        if self._collector is None:
            raise ValueError("the model has no environment; call set_env(env), or pass env= to load(), before learn()")
        return self._collector

    @property
    def _last_obs(self) -> Observation | None:
        return None if self._collector is None else self._collector.observations

    @_last_obs.setter
    def _last_obs(self, observations: Observation | None) -> None:
        self._required_collector().observations = observations

    @property
    def _last_episode_starts(self) -> Array | None:
        return None if self._collector is None else self._collector.episode_starts

    @_last_episode_starts.setter
    def _last_episode_starts(self, episode_starts: Array) -> None:
        self._required_collector().episode_starts = np.asarray(episode_starts, np.bool_)

    def _update_info_buffer(self, infos: Sequence[Info], dones: Array | None = None) -> None:
        """Count the episodes that ended, from the infos of a vector step."""
        ended = np.zeros(len(infos), np.bool_) if dones is None else dones
        self._required_collector().count_episodes(dict(enumerate(infos)), ended)

    @property
    def logger(self) -> Logger:
        if self._logger is None:
            self._logger = configure_logger(0, None)
        return self._logger

    def set_logger(self, logger: Logger) -> None:
        """Log here instead of where ``verbose`` and ``tensorboard_log`` say."""
        self._logger = logger
        self._custom_logger = True

    def set_random_seed(self, seed: int | None = None) -> None:
        """Seed Python, NumPy, torch, the action space, the environments and the model's own generator."""
        if seed is None:
            # follows NumPy's global generator, so that seeding that one makes a run repeatable
            self._seed_generator(int(np.random.randint(2**31)))  # noqa: NPY002
            return
        set_random_seed(seed, using_cuda=self.device.type == "cuda")
        self._seed_generator(seed)
        self.action_space.seed(seed)
        if self.env is not None:
            self.env.seed(seed)

    def _seed_generator(self, seed: int) -> None:
        # in place: the backend holds the same object
        self.generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state

    # -- training

    @abstractmethod
    def train(self) -> None:
        """Update the policy from the rollout buffer and record the metrics."""

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 1,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        use_masking: bool = False,
        on_non_finite: OnNonFinite = "raise",
    ) -> Self:
        """Train for at least ``total_timesteps`` steps: whole rollouts, until the number is reached.

        ``log_interval`` counts updates between writings of the log (None writes none); ``tb_log_name`` names the
        TensorBoard run, by default after the algorithm; ``callback`` is a callback, a list of them or a function.
        ``use_masking`` asks the environments' ``action_masks()`` before every step which actions are allowed.
        With ``reset_num_timesteps=False``, a model loaded from a checkpoint goes on exactly as if it had not been
        interrupted; ``total - model.num_timesteps`` as ``total_timesteps`` gives the schedules the run's own ``total``
        (:meth:`resume` does that).
        ``on_non_finite`` says what a NaN or infinity does, in observations, rewards, loss or gradient: ``"raise"``
        stops with where and when, ``"skip"`` leaves out the steps or minibatches it touches. The weights stay finite
        either way.
        """
        self._mask_actions(use_masking)
        self._set_on_non_finite(on_non_finite)
        total_timesteps, callback = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name or self.run_name, progress_bar
        )
        Trainer(self, callback, log_interval).run(total_timesteps, locals(), globals())
        return self

    def _mask_actions(self, use_masking: bool) -> None:
        collector = self._required_collector()
        collector.masks = MaskReader(collector.env) if use_masking else None

    def _set_on_non_finite(self, choice: OnNonFinite) -> None:
        if choice not in get_args(OnNonFinite):
            raise ValueError(
                f"on_non_finite is {choice!r}; expected one of {', '.join(map(repr, get_args(OnNonFinite)))}"
            )
        self.on_non_finite = choice
        self._required_collector().skip_non_finite = choice == "skip"

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback,
        reset_num_timesteps: bool = True,
        tb_log_name: str = "run",
        progress_bar: bool = False,
    ) -> tuple[int, BaseCallback]:
        collector = self._required_collector()
        collector.reward_shaper = self.reward_shaper
        self.start_time = time.time_ns()
        if reset_num_timesteps:
            self._training_state = None
            self.num_timesteps = 0
            self.ep_info_buffer.clear()
            self.ep_success_buffer.clear()
            collector.reset()
        else:
            total_timesteps += self.num_timesteps
        self._total_timesteps = total_timesteps
        self._iteration = 0
        self._num_timesteps_at_start = self.num_timesteps
        if not self._custom_logger:
            self._logger = configure_logger(self.verbose, self.tensorboard_log, tb_log_name, reset_num_timesteps)
        return total_timesteps, self._init_callback(callback, progress_bar)

    def _init_callback(self, callback: MaybeCallback, progress_bar: bool = False) -> BaseCallback:
        followers = as_callback(callback)
        if progress_bar:
            followers = CallbackList([followers, ProgressBarCallback()])
        followers.init_callback(self)
        self._callback = followers
        return followers

    # -- checkpoints

    def training_state(self, boundary: bool = False) -> dict[str, Any]:
        """All that decides how the training goes on, besides the model itself; to be called between iterations.

        At a ``boundary`` the environments are seeded and reset instead of being asked for their state.
        """
        return training_state.take(self, self._callback, boundary)

    def save_checkpoint(self, path: str | Path | BinaryIO, state: Mapping[str, Any] | None = None) -> None:
        """Write a model file from which the training goes on exactly: with the state given, or that of this moment.

        Weights that hold NaN or infinity are refused with ``NonFiniteError``.
        """
        training_state.check_finite(self)
        files.save(self, path, training_state=self.training_state() if state is None else state)

    def resume(self, callback: MaybeCallback = None, **options: Any) -> Self:
        """Train what is left of the training that a checkpoint was saved in; ``options`` are those of :meth:`learn`.

        Give the callbacks and logging options of that training: they take up their own place in it.
        """
        return self.learn(self._total_timesteps - self.num_timesteps, callback, reset_num_timesteps=False, **options)

    def _take_up_training(self, callback: BaseCallback) -> None:
        state, self._training_state = self._training_state, None
        if state is not None:
            training_state.restore(self, callback, state)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Fill the buffer with one rollout and its advantages; False when a callback ended it."""
        collector = self._required_collector()
        if n_rollout_steps != rollout_buffer.buffer_size:
            raise ValueError(
                f"the rollout buffer holds {rollout_buffer.buffer_size} steps, {n_rollout_steps} were asked for; give "
                "n_steps to the constructor, or to load(), which make a buffer of that size"
            )
        if self.policy.recurrent:
            rollout_buffer.rollout.sequence_length = self._sequence_length()  # batch_size may have changed
        listener = CallbackListener(self, callback)
        context = {
            "self": self,
            "env": env,
            "callback": callback,
            "rollout_buffer": rollout_buffer,
            "n_rollout_steps": n_rollout_steps,
        }
        callback.update_locals(context)
        callback.on_rollout_start()
        if not collector.collect(self._current_backend(), rollout_buffer, listener, context):
            return False
        if not listener.wants_steps():
            self.num_timesteps += n_rollout_steps * self.n_envs
        callback.on_rollout_end()
        return True

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        # the last rollout may overshoot the total: schedules must not go below their end
        self._current_progress_remaining = max(0.0, 1.0 - num_timesteps / total_timesteps)

    def _update_learning_rate(self, optimizers: Iterable[torch.optim.Optimizer] | torch.optim.Optimizer) -> None:
        """Set and record the learning rate of the current progress; for subclasses with their own ``train``."""
        rate = self.lr_schedule(self._current_progress_remaining)
        self.logger.record("train/learning_rate", rate)
        for optimizer in [optimizers] if isinstance(optimizers, torch.optim.Optimizer) else optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate

    def dump_logs(self, iteration: int = 0) -> None:
        """Write what was recorded, with the time and the statistics of the latest episodes."""
        elapsed = max((time.time_ns() - self.start_time) / 1e9, sys.float_info.epsilon)
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

    # -- use

    def predict(
        self,
        observation: Observation,
        state: RecurrentState | None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
        action_masks: Array | None = None,
    ) -> tuple[Any, RecurrentState | None]:
        """Actions for one observation or a batch, as the environment takes them, and the next recurrent state.

        ``action_masks`` is true where an action is allowed.
        """
        if action_masks is None:  # a user's policy may know nothing of masks
            return self.policy.predict(observation, state, episode_start, deterministic)
        return self.policy.predict(observation, state, episode_start, deterministic, action_masks)

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """State dictionaries of policy and optimiser."""
        return {"policy": self.policy.state_dict(), "policy.optimizer": self.policy.optimizer.state_dict()}

    def set_parameters(
        self,
        load_path_or_dict: str | Path | Mapping[str, Mapping[str, Any]],
        exact_match: bool = True,
        device: torch.device | str = "auto",
    ) -> None:
        """Load weights (and optimiser state) from :meth:`get_parameters`' dictionary or from a model file.

        With ``exact_match`` every part and every weight must be there; without, only what is given is changed.
        """
        if isinstance(load_path_or_dict, Mapping):
            files.set_parameters(self, load_path_or_dict, exact_match)
        else:
            files.load_parameters(self, load_path_or_dict, exact_match)

    def _own_tensors(self) -> dict[str, torch.Tensor]:
        """What an algorithm keeps in a model file beside the weights and their optimiser's state."""
        return {}

    def _load_own_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take over what :meth:`_own_tensors` gave."""
        if tensors:
            raise ValueError(f"{type(self).__name__} keeps no tensors of its own, got {', '.join(tensors)}")

    def save(
        self, path: str | Path | BinaryIO, exclude: Iterable[str] | None = None, include: Iterable[str] | None = None
    ) -> None:
        """Write the model as one safe file: nothing in it is code, and it appears whole or not at all."""
        files.save(self, path, exclude=exclude, include=include)

    @classmethod
    def load(
        cls,
        path: str | Path | BinaryIO,
        env: Any = None,
        device: torch.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Read a model from a file of :meth:`save`, or of Stable-Baselines3's; nothing in the file is executed.

        ``custom_objects`` supplies values that have no safe form in a file (a lambda, a class of yours), and
        overrides others; ``kwargs`` override attributes. A checkpoint's training state takes effect in
        ``learn(…, reset_num_timesteps=False)`` or :meth:`resume`; ``custom_objects={"training_state": None}`` leaves
        it out.
        """
        return files.load(
            cls,
            path,
            env,
            device,
            custom_objects,
            print_system_info=print_system_info,
            force_reset=force_reset,
            **kwargs,
        )
