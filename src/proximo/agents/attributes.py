"""What an agent holds: the attributes that its sides share, declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Mapping

    import torch

    from proximo.agents.together import Distributed
    from proximo.augmentation import Augmentation
    from proximo.backends.runtime import Runtime
    from proximo.data import Array, Info, Schedule
    from proximo.envs import VecEnv
    from proximo.exploration import IntrinsicReward
    from proximo.functional.return_moments import ReturnMoments
    from proximo.functional.spaces import Space
    from proximo.networks.actor_critic import ActorCriticPolicy
    from proximo.rollout.collector import Collector
    from proximo.rollout.storage import RolloutBuffer
    from proximo.training.callbacks import BaseCallback
    from proximo.training.loggers import Logger


class AgentAttributes:
    """Their types; ``OnPolicyAlgorithm``'s constructor gives them their values."""

    config_class: ClassVar[type[Any]]
    default_learner_class: ClassVar[type[Any]]
    run_name: ClassVar[str]

    runtime: Runtime
    policy: Any
    learner: Any
    rollout_buffer: RolloutBuffer
    env: VecEnv | None
    observation_space: Space
    action_space: Space
    policy_class: type[ActorCriticPolicy]
    policy_kwargs: dict[str, Any]
    learner_class: type[Any]
    rollout_buffer_class: type[Any]
    rollout_buffer_kwargs: dict[str, Any]
    intrinsic_reward: IntrinsicReward | None
    augmentation: Augmentation | None
    distributed: Distributed
    device: torch.device
    use_sde: bool
    verbose: int
    learning_rate: float | Schedule | str
    lr_schedule: Schedule
    n_envs: int
    n_steps: int
    gamma: float
    gae_lambda: float
    normalize_returns: bool
    return_moments: ReturnMoments  # in whose units value network and rollout are
    num_timesteps: int
    ep_info_buffer: deque[Info]
    ep_success_buffer: deque[bool]
    strict_resume: bool  # whether going on from a checkpoint must be exact
    _adapted_rate: float | None  # where a learning rate that follows the divergence has come to
    _adapted_rate_of: str | None  # the learning_rate of that time
    _callback: BaseCallback | None  # of the current training
    _collector: Collector | None
    _current_progress_remaining: float
    _custom_logger: bool
    _loaded_settings: dict[str, Any] | None  # of a VecNormalize: its arguments, where the file has them
    _loaded_statistics: dict[str, Array] | None  # of the VecNormalize that the loaded model had
    _logger: Logger | None
    _monitor_wrapper: bool
    _n_updates: int
    _num_timesteps_at_start: int
    _own_buffer: RolloutBuffer | None  # of this process's rollout, where all learn from all rows
    _started: int  # of the monotonic clock, in nanoseconds
    _training_state: Mapping[str, Any] | None  # of the checkpoint that the model was loaded from
    _versions: dict[str, str]  # of packages, for checkpoints
    _versions_of: VecEnv | None
