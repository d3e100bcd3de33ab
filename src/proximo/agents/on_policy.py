"""What all on-policy algorithms share: environment, network, ``learn`` and ``predict``."""

from __future__ import annotations

import operator
import random
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np
import torch

from proximo.agents.arguments import SHARED_ARGUMENTS, describe_arguments
from proximo.agents.checks import (
    check_mirror,
    check_needs_no_env,
    check_normalized_returns,
    check_second_value,
    check_timesteps,
    checked_buffer_class,
    checked_distributed,
    checked_intrinsic_reward,
    checked_learner_class,
)
from proximo.agents.copying import CopySide
from proximo.agents.environment import EnvironmentSide
from proximo.agents.saving import FileSide
from proximo.agents.scales import ScaleSide
from proximo.agents.together import Distributed
from proximo.augmentation import Augmentation, Mirror, check_augmentation
from proximo.backends.base import BackendChoice, Precision
from proximo.backends.runtime import Runtime
from proximo.config import ActorCriticConfig, OnPolicyConfig, describe_constructor, plain_number
from proximo.data import Array, Info, Metrics, Observation, Rollout, Schedule
from proximo.envs import VecEnv, as_vec_env
from proximo.errors import near_matches
from proximo.exploration import IntrinsicReward
from proximo.files.known_values import own_class
from proximo.functional.return_moments import ReturnMoments
from proximo.networks.actor_critic import POLICY_ALIASES, ActorCriticPolicy, RecurrentState, get_device
from proximo.networks.recurrent import RECURRENT_POLICY_ALIASES
from proximo.other_libraries import stands_for
from proximo.rollout.adapted_storage import AdaptedRolloutBuffer
from proximo.rollout.masks import MaskReader
from proximo.rollout.minibatches import longest_sequence
from proximo.rollout.storage import (
    RolloutBuffer,
    add_intrinsic_advantages,
    allocate_stream,
    estimate_advantages,
    is_stock,
)
from proximo.training.callbacks import BaseCallback, CallbackList, ProgressBarCallback, as_callback
from proximo.training.loggers import Logger, configure_logger
from proximo.training.loop import CallbackListener, TrainingLoop

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


@stands_for("stable_baselines3.common.on_policy_algorithm", "OnPolicyAlgorithm")
class OnPolicyAlgorithm(EnvironmentSide, FileSide, CopySide, ScaleSide, ABC):
    """An on-policy algorithm in the shape of Stable-Baselines3's.

    A subclass names its ``config_class`` and ``learner_class`` and implements :meth:`train`. Hyperparameters are plain
    attributes, read and checked for every update, so a callback may change them while training.
    """

    policy_aliases: ClassVar[Mapping[str, type[ActorCriticPolicy]]] = {**POLICY_ALIASES, **RECURRENT_POLICY_ALIASES}
    config_class: ClassVar[type[OnPolicyConfig]]
    default_learner_class: ClassVar[type[Any]]
    run_name: ClassVar[str] = "OnPolicyAlgorithm"  # of TensorBoard runs
    one_value: ClassVar[str | None] = None  # why an intrinsic reward can have no value of its own

    rollout_buffer: RolloutBuffer
    learner: Any
    lr_schedule: Schedule
    n_steps: int
    gamma: float
    gae_lambda: float
    learning_rate: float | Schedule | str
    normalize_returns: bool

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = "__init__" in vars(cls) and hasattr(cls, "config_class")
        if own and cls.__module__.startswith("proximo."):
            cls.__doc__ = (cls.__doc__ or "") + describe_arguments(cls)

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
        precision: Precision = "float32",
        learner_class: type[Any] | None = None,
        intrinsic_reward: IntrinsicReward | None = None,
        augmentation: Augmentation | None = None,
        distributed: Distributed = True,
        _init_setup_model: bool = True,
    ) -> None:
        for name, value in config.as_dict().items():
            setattr(self, name, value)
        self._know(config)
        self.policy_class = self._resolve_policy(policy)
        self.policy_kwargs = {name: own_class(value) for name, value in (policy_kwargs or {}).items()}
        if not isinstance(sde_sample_freq, int):
            raise TypeError(f"sde_sample_freq is {sde_sample_freq!r}; expected a number of steps, or -1 for a rollout")
        self.use_sde, self.sde_sample_freq = use_sde, sde_sample_freq
        self.rollout_buffer_class = checked_buffer_class(own_class(rollout_buffer_class))
        self.rollout_buffer_kwargs = dict(rollout_buffer_kwargs or {})
        self.learner_class = checked_learner_class(learner_class, self.default_learner_class)
        self.intrinsic_reward = checked_intrinsic_reward(intrinsic_reward)
        self.augmentation = augmentation
        self.distributed = checked_distributed(distributed)
        self._own_buffer: RolloutBuffer | None = None  # of this process's rollout, where all learn from all rows
        self.tensorboard_log = tensorboard_log
        self.verbose = verbose
        self.seed = seed
        self.device = get_device(device)
        self._backend_choice: BackendChoice = backend
        self.precision: Precision = precision
        # its generator is seeded by _setup_model
        self.runtime = Runtime(
            np.random.default_rng(0),
            backend,
            obstacle=self._fusing_obstacle,
            settings=self.configuration,
            precision=precision,
        )
        self.num_timesteps = 0
        self._started = time.monotonic_ns()
        self.ep_info_buffer: deque[Info] = deque(maxlen=stats_window_size)
        self.ep_success_buffer: deque[bool] = deque(maxlen=stats_window_size)
        self._stats_window_size = stats_window_size
        self._monitor_wrapper = monitor_wrapper
        self._total_timesteps = 0
        self._num_timesteps_at_start = 0
        self._current_progress_remaining = 1.0
        self._n_updates = 0
        self._iteration = 0  # of the current training
        self._callback: BaseCallback | None = None
        self._loaded_statistics: dict[str, Array] | None = None
        self._loaded_settings: dict[str, Any] | None = None
        self._training_state: Mapping[str, Any] | None = None
        self.strict_resume = False
        self._versions: dict[str, str] = {}  # of packages, for checkpoints
        self._versions_of: VecEnv | None = None
        self.companions: dict[str, Any] = {}  # what trains beside the policy and has state_dict and load_state_dict
        self.on_non_finite: OnNonFinite = "raise"
        self.return_moments = ReturnMoments()  # in whose units value network and rollout are; 0 and 1 without PopArt
        self._adapted_rate: float | None = None  # where a learning rate that follows the divergence has come to
        self._adapted_rate_of: str | None = None  # the learning_rate of that time
        self._logger: Logger | None = None
        self._custom_logger = False
        self.env: VecEnv | None = None
        self.n_envs = 1
        self._collector = None
        if env is None:
            check_needs_no_env(_init_setup_model)
        else:
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
        policy = own_class(policy)
        if not (isinstance(policy, type) and issubclass(policy, ActorCriticPolicy)):
            raise TypeError(
                f"policy is {policy!r}; expected one of {', '.join(self.policy_aliases)} or a subclass of "
                "proximo.networks.ActorCriticPolicy (proximo.sb3.common.policies names it too)"
            )
        return policy

    def _setup_model(self) -> None:
        """Make buffer, policy and learner; seeds come first, so that networks start alike."""
        self._setup_lr_schedule()
        self.set_random_seed(self.seed)
        self.rollout_buffer = self._make_buffer()
        self.policy = self._make_policy().to(self.device)
        self.runtime.choice, self.runtime.precision = self._backend_choice, self.precision
        self.runtime.sde_sample_freq = self.sde_sample_freq
        self.learner = self._make_learner()
        self._bind_intrinsic_reward()  # after the policy: a seed makes the same policy with and without it
        self._bind_augmentation()
        if self.normalize_returns:
            check_normalized_returns(self.policy, self.rollout_buffer, self.intrinsic_reward)
        self.runtime.bind()
        if self._exchange is not None:
            self._start_alike(self._exchange)
            self._distribute(self._exchange)
        if self.verbose >= 1 and self.rank == 0:
            print(f"Using {self.device} device, backend {self.backend}")  # noqa: T201
        self._know(self.config_class(**{name: plain_number(getattr(self, name)) for name in self.config_class.names()}))

    def _make_policy(self) -> ActorCriticPolicy:
        arguments = self.policy_arguments()
        spaces = arguments.pop("observation_space"), arguments.pop("action_space")  # a user's class may rename them
        return self.policy_class(*spaces, self.lr_schedule, **arguments)

    def policy_arguments(self) -> dict[str, Any]:
        """What the policy is built with, besides the learning rate."""
        own_value = self.intrinsic_reward is not None and self.intrinsic_reward.own_value
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "use_sde": self.use_sde,
            **self.policy_kwargs,
            **({"value_heads": 2} if own_value else {}),
        }

    def _bind_intrinsic_reward(self) -> None:
        reward = self.intrinsic_reward
        if reward is None:
            return
        if reward.own_value and self.one_value is not None:
            raise ValueError(
                f"{self.run_name} cannot give an intrinsic reward a value of its own: {self.one_value}; leave "
                "own_value out, or use PPO"
            )
        reward.bind(self.observation_space, self.action_space, self.n_envs, self.device)
        if reward.own_value:
            check_second_value(self.policy, self.rollout_buffer, type(reward).__name__)
            self._allocate_own_stream(self.rollout_buffer)

    def _allocate_own_stream(self, buffer: RolloutBuffer) -> None:
        if self.intrinsic_reward is not None and self.intrinsic_reward.own_value:
            buffer.rollout.own_stream = allocate_stream(self.n_steps, buffer.n_envs)

    def _bind_augmentation(self) -> None:
        if isinstance(self.augmentation, Mirror):
            check_mirror(self, self.augmentation)
            self.learner.augmentation = self.augmentation
        elif self.augmentation is not None:
            check_augmentation(self.augmentation, self.observation_space)
            self.learner.augmentation = self.augmentation
        elif (coefficient := getattr(self, "aug_coef", None)) not in (None, ActorCriticConfig.aug_coef):
            raise ValueError(
                f"aug_coef is {coefficient}, but there is no augmentation whose terms it could weigh; give "
                "augmentation=RandomShift(), say, or leave aug_coef out"
            )

    def _make_learner(self) -> Any:
        return checked_learner_class(self.learner_class, self.default_learner_class)(self.runtime)

    def _make_buffer(
        self, environments: int | None = None, buffer_class: type[RolloutBuffer] | None = None
    ) -> RolloutBuffer:
        kind = buffer_class or self.rollout_buffer_class
        buffer = kind(
            self.n_steps,
            self.observation_space,
            self.action_space,
            device=self.device,
            gae_lambda=self.gae_lambda,
            gamma=self.gamma,
            n_envs=self.n_envs if environments is None else environments,
            **(self.rollout_buffer_kwargs if buffer_class is None else {}),
        )
        if not isinstance(buffer, RolloutBuffer):
            buffer = AdaptedRolloutBuffer(buffer)
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

    # -- the network, which the runtime owns

    @property
    def policy(self) -> Any:
        """The policy, a torch module; another one may be put in its place."""
        return self.runtime.policy

    @policy.setter
    def policy(self, policy: ActorCriticPolicy) -> None:
        self.runtime.policy = policy

    @property
    def generator(self) -> np.random.Generator:
        """Draws exploration noise and minibatches."""
        return self.runtime.generator

    @generator.setter
    def generator(self, generator: np.random.Generator) -> None:
        self.runtime.generator = generator

    @property
    def backend(self) -> str:
        """Which backend runs the policy, and why: ``"fused"`` or ``"torch: features extractor is NatureCNN"``."""
        return self.runtime.description

    def _fusing_obstacle(self) -> str | None:
        """What besides the policy keeps the kernels from running it."""
        if not is_stock(self.rollout_buffer):  # kernels read the memory, and would not call a subclass's get()
            return f"rollout buffer is {self.rollout_buffer_class.__name__}"
        obstacle: str | None = self.learner.obstacle()
        return obstacle

    # -- logger and seed

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

    def set_random_seed(self, seed: int | None = None) -> None:
        """Seed Python, NumPy, torch, the action space, the environments and the model's own generator."""
        if seed is None:
            # follows NumPy's global generator, so that seeding that one makes a run repeatable
            drawn = int(np.random.randint(2**31))  # noqa: NPY002
            if self._exchange is not None:  # processes that train together draw alike
                drawn, state = self._exchange.group.first((drawn, torch.get_rng_state()), "seeding a model")
                torch.set_rng_state(state)
            self._seed_generator(drawn)
            return
        set_random_seed(seed, using_cuda=self.device.type == "cuda")
        self._seed_generator(seed)
        self.action_space.seed(seed)
        if self.env is not None:
            self.env.seed(seed + (0 if self._exchange is None else self._exchange.share.first))

    def _seed_generator(self, seed: int) -> None:
        # in place: the backend holds the same object
        self.generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state

    # -- training

    def configuration(self) -> OnPolicyConfig:
        """The hyperparameters of this moment; what was changed since is checked, and passed on to who keeps a copy."""
        present = [getattr(self, name) for name in self.config_class.names()]
        if all(map(operator.is_, present, self._known_objects)):
            return self._configuration
        known = self._configuration.as_dict()
        values = dict(zip(known, map(plain_number, present), strict=True))
        if values != known:
            self._know(self.config_class(**values))
            if values["learning_rate"] != known["learning_rate"]:
                self._setup_lr_schedule()
            for name in ("gamma", "gae_lambda"):
                if values[name] != known[name]:
                    setattr(self.rollout_buffer, name, values[name])
        return self._configuration

    def _know(self, config: OnPolicyConfig) -> None:
        """Keep what was read; a number of NumPy or PyTorch may change in place, and is never the object known here."""
        self._configuration = config
        self._known_objects = list(config.as_dict().values())

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
        check_timesteps(total_timesteps)
        with self._telling_failures():
            self._mask_actions(use_masking)
            self._set_on_non_finite(on_non_finite)
            total_timesteps, callback = self._setup_learn(
                total_timesteps, callback, reset_num_timesteps, tb_log_name or self.run_name, progress_bar
            )
            TrainingLoop(self, callback, log_interval).run(total_timesteps, locals(), globals())
        return self

    def resume(self, callback: MaybeCallback = None, strict: bool = False, **options: Any) -> Self:
        """Train what is left of the training that a checkpoint was saved in; ``options`` are those of :meth:`learn`.

        Give the callbacks and logging options of that training: they go on from their own place in it. What keeps the
        rest from being exact (other versions of packages, environments that could not give their state) is a warning,
        with ``strict`` a ``NotExactError``.
        """
        self.strict_resume = strict
        return self.learn(self._total_timesteps - self.num_timesteps, callback, reset_num_timesteps=False, **options)

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
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        tb_log_name: str = "run",
        progress_bar: bool = False,
    ) -> tuple[int, BaseCallback]:
        collector = self._required_collector()
        if self._exchange is not None and self._is_sharded() != (self._own_buffer is None):
            self._distribute(self._exchange)  # something has changed since the model was made
        self._started = time.monotonic_ns()
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
            place = (self.verbose, self.tensorboard_log) if self.rank == 0 else (0, None)
            self._logger = configure_logger(*place, tb_log_name, reset_num_timesteps)
        return total_timesteps, self._init_callback(callback, progress_bar)

    def _init_callback(self, callback: MaybeCallback, progress_bar: bool = False) -> BaseCallback:
        followers = as_callback(callback)
        if progress_bar:
            followers = CallbackList([followers, ProgressBarCallback()])
        followers.init_callback(self)
        self._callback = followers
        return followers

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
        own, whole = rollout_buffer, None
        if self._own_buffer is not None:
            own, whole = self._own_buffer, rollout_buffer
        if self.policy.recurrent:
            own.rollout.sequence_length = self._sequence_length()  # batch_size may have changed
        context = {
            "self": self,
            "env": env,
            "callback": callback,
            "rollout_buffer": rollout_buffer,
            "n_rollout_steps": n_rollout_steps,
        }
        callback.update_locals(context)
        callback.on_rollout_start()
        self.configuration()  # a callback may have changed the discount
        collector.keep_final_observations = self.intrinsic_reward is not None
        listener = CallbackListener(self, callback)
        with self.runtime.held() as backend:
            self.runtime.use_threads(own.n_envs, leave_cores=collector.env.has_workers)
            if not collector.collect(backend, own, listener, context, whole):
                if collector.exchange is not None:
                    listener.count_whole(collector.steps_counted * self.n_envs)
                return False
        listener.count_whole(n_rollout_steps * self.n_envs)
        self._finish_rollout(rollout_buffer)
        callback.on_rollout_end()
        return True

    def _finish_rollout(self, buffer: RolloutBuffer) -> None:
        """Rewards to advantages: the intrinsic reward comes in, what is not finite goes out."""
        self._rewards_are_shaped = True
        collector, reward = self._required_collector(), self.intrinsic_reward
        extrinsic = buffer.rollout.rewards.copy() if reward is not None else None
        if reward is not None:
            reward.skip_non_finite = collector.skip_non_finite
            collector.shape_rewards(buffer.rollout, reward.shape)
        collector.leave_out_non_finite(buffer.rollout)
        if self.normalize_returns or self.return_moments.count:
            self._estimate_normalized(buffer, collector.following_starts)
        else:
            estimate_advantages(buffer, collector.following_starts)
        if reward is not None:
            if reward.own_value:
                discount = self.gamma if reward.discount is None else reward.discount
                add_intrinsic_advantages(buffer, discount, reward.weight, reward.extrinsic_coef)
            self._record_rewards(buffer.rollout, extrinsic)

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

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        # the last rollout may overshoot the total: schedules must not go below their end
        self._current_progress_remaining = max(0.0, 1.0 - num_timesteps / total_timesteps)

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


OnPolicyAlgorithm.__doc__ = (OnPolicyAlgorithm.__doc__ or "") + describe_constructor(
    OnPolicyAlgorithm, SHARED_ARGUMENTS
)
