"""How good is a policy: play whole episodes and report their returns with an interval."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proximo.data import Array, Info, Observation, StepArrays
from proximo.distributed import show_life
from proximo.envs.adapters.as_vec_env import as_vec_env
from proximo.envs.adapters.foreign import ForeignVecEnvAdapter
from proximo.envs.adapters.gymnasium_vector import VectorEnvAdapter
from proximo.envs.vector.normalize import has_seen_nothing, unwrap_vec_normalize
from proximo.envs.vector.transpose import VecTransposeImage
from proximo.envs.vector.vec_env import VecEnv, VecEnvWrapper, arrays_from_step, copy_observation, is_vecenv_wrapped
from proximo.envs.vector.vec_monitor import VecMonitor
from proximo.envs.wrappers.monitor import Monitor
from proximo.functional.statistics import Interval, mean_interval
from proximo.rollout.masks import MaskReader

StepCallback: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], Any]


class Predictor(Protocol):
    """What can be evaluated: a model, a policy, or anything else that chooses actions."""

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        """Actions for a batch of observations, and the next recurrent state."""


@dataclass(frozen=True)
class Evaluation:
    """The episodes of an evaluation, in the order in which they ended.

    >>> evaluation = Evaluation((1.0, 2.0, 3.0), (10, 10, 10))
    >>> evaluation.mean, evaluation.interval.low < 0.0
    (2.0, True)
    >>> print(evaluation)
    mean return 2.0 [-0.5, 4.5] over 3 episodes

    Arguments:
        episode_rewards: The return of each episode.
        episode_lengths: The steps of each episode.
    """

    episode_rewards: tuple[float, ...]
    episode_lengths: tuple[int, ...]
    successes: tuple[bool, ...] = ()  # of the episodes that reported ``is_success``

    @classmethod
    def joined(cls, parts: Sequence[Evaluation]) -> Evaluation:
        """The episodes of several evaluations, one after the other."""
        rewards, lengths, successes = (
            tuple(value for part in parts for value in getattr(part, name))
            for name in ("episode_rewards", "episode_lengths", "successes")
        )
        return cls(rewards, lengths, successes)

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(np.mean(self.episode_rewards))

    @property
    def std(self) -> float:
        """Spread of the returns (not of their mean), with divisor n."""
        return float(np.std(self.episode_rewards))

    @property
    def interval(self) -> Interval:
        """The mean return with its 95 % interval."""
        return mean_interval(self.episode_rewards)

    @property
    def success_rate(self) -> float | None:
        """The share of episodes that succeeded; None where the environment does not say."""
        return float(np.mean(self.successes)) if self.successes else None

    def __str__(self) -> str:
        success = "" if self.success_rate is None else f", {100 * self.success_rate:.0f} % successful"
        return f"mean return {self.interval} over {len(self.episode_rewards)} episodes{success}"


def evaluate(
    model: Predictor,
    env: Any,
    n_eval_episodes: int = 10,
    *,
    deterministic: bool = True,
    render: bool = False,
    callback: StepCallback | None = None,
    warn: bool = True,
    use_masking: bool | None = None,
    progress: Callable[[int], object] | None = None,
) -> Evaluation:
    """Play ``n_eval_episodes`` episodes in ``env`` (anything that ``as_vec_env`` takes) with ``model``'s actions.

    Every environment plays its fixed share of the episodes; counting whichever end first would favour short ones.
    Returns and lengths are those of a ``Monitor`` where there is one, so that reward scaling and lost lives above it do
    not count. ``callback(locals, globals)`` is called after each step once for every environment that still plays its
    share; ``locals`` holds ``i``, ``reward``, ``done`` and ``info`` of it beside the variables of the whole step.
    ``use_masking`` tells the model at every step which actions the environments' ``action_masks()`` allow; left out, it
    is true for an algorithm that masks by itself (MaskablePPO).
    ``progress`` is told after each step how many episodes have ended.
    """
    if use_masking is None:
        use_masking = getattr(model, "masks_actions", False)
    if n_eval_episodes < 1:
        raise ValueError(f"n_eval_episodes is {n_eval_episodes}; an evaluation needs at least one episode")
    vec_env = _vector_env_as_given(env)
    tally = _Tally(vec_env.num_envs, n_eval_episodes, _reports_episodes(vec_env))
    if warn and not tally.monitored:
        warnings.warn(
            "the evaluation environment has no Monitor: returns and lengths are counted from outside, after all "
            "wrappers that may change them. Wrap the environment in Monitor before its other wrappers",
            UserWarning,
            stacklevel=2,
        )
    if warn:
        _warn_of_another_scale(model, vec_env)
    try:
        arguments = {"model": model, "deterministic": deterministic, "render": render}
        all_infos = callback is not None
        steps = play(model, vec_env, deterministic=deterministic, use_masking=use_masking, all_infos=all_infos)
        for step, variables in steps:
            if step is None:
                continue
            show_life("evaluating")
            tally.add(step, callback, variables | arguments)
            if progress is not None:
                progress(len(tally.rewards))
            if render:
                vec_env.render()
            if tally.complete:
                break
    finally:
        if isinstance(env, str):
            vec_env.close()
    return Evaluation(tuple(tally.rewards), tuple(tally.lengths), tuple(tally.successes))


def evaluate_policy(
    model: Predictor,
    env: Any,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    render: bool = False,
    callback: StepCallback | None = None,
    reward_threshold: float | None = None,
    return_episode_rewards: bool = False,
    warn: bool = True,
    use_masking: bool = False,
) -> tuple[float, float] | tuple[list[float], list[int]]:
    """Mean and standard deviation of the returns, or with ``return_episode_rewards`` all returns and lengths.

    :func:`evaluate` does the work and returns the same with an interval. A mean that does not exceed
    ``reward_threshold`` is an ``AssertionError``, for use in tests.
    """
    evaluation = evaluate(
        model,
        env,
        n_eval_episodes,
        deterministic=deterministic,
        render=render,
        callback=callback,
        warn=warn,
        use_masking=use_masking,
    )
    if reward_threshold is not None and not evaluation.mean > reward_threshold:
        raise AssertionError(f"the mean return {evaluation.mean:.2f} does not exceed {reward_threshold:.2f}")
    if return_episode_rewards:
        return list(evaluation.episode_rewards), list(evaluation.episode_lengths)
    return evaluation.mean, evaluation.std


@dataclass
class _Tally:
    """Counts each environment's share of the episodes."""

    environments: int
    episodes: int
    monitored: bool
    rewards: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    successes: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        shares = [(self.episodes + index) // self.environments for index in range(self.environments)]
        self.targets: NDArray[np.int64] = np.array(shares)
        self.counts: NDArray[np.int64] = np.zeros(self.environments, np.int64)
        self.running_rewards: NDArray[np.float64] = np.zeros(self.environments)
        self.running_lengths: NDArray[np.int64] = np.zeros(self.environments, np.int64)

    @property
    def complete(self) -> bool:
        return bool((self.counts >= self.targets).all())

    def add(self, step: StepArrays, callback: StepCallback | None, variables: dict[str, Any]) -> None:
        """Take in one step; with a ``callback``, tell it of each environment before that environment is counted."""
        played = 1 if step.valid is None else step.valid
        self.running_rewards += step.rewards * played
        self.running_lengths += played
        dones = _ends(step)
        observed = dones if callback is None else np.ones_like(dones)
        for index in np.flatnonzero(observed & (self.counts < self.targets)).tolist():
            if callback is not None:
                callback(variables | self._variables() | _row_variables(variables, index), globals())
            if dones[index] and (step.valid is None or step.valid[index]):  # an environment that failed ends no episode
                self._count(index, step.infos[index])
        self.running_rewards[dones] = 0.0
        self.running_lengths[dones] = 0

    def _count(self, index: int, info: Info) -> None:
        episode = info.get("episode") if self.monitored else None
        if episode is None:
            if self.monitored:
                return  # a wrapper above the monitor cut the episode, for example at a lost life: it goes on
            episode = {"r": self.running_rewards[index], "l": self.running_lengths[index]}
        self.rewards.append(float(episode["r"]))
        self.lengths.append(int(episode["l"]))
        self.counts[index] += 1
        if (success := info.get("is_success")) is not None:
            self.successes.append(bool(success))

    def _variables(self) -> dict[str, Any]:
        return {
            "n_eval_episodes": self.episodes,
            "n_envs": self.environments,
            "is_monitor_wrapped": self.monitored,
            "episode_rewards": self.rewards,
            "episode_lengths": self.lengths,
            "episode_counts": self.counts,
            "episode_count_targets": self.targets,
            "current_rewards": self.running_rewards,
            "current_lengths": self.running_lengths,
        }


def play(
    model: Predictor, env: VecEnv, *, deterministic: bool = True, use_masking: bool = False, all_infos: bool = False
) -> Iterator[tuple[StepArrays | None, dict[str, Any]]]:
    """Step ``env`` with the model's actions for ever; gives None after the reset, then each step.

    With ``all_infos`` a step comes with the variables that a callback may read.
    """
    masks = MaskReader(env, stage="evaluation") if use_masking else None
    observations = env.reset()
    states = None
    episode_starts: Array = np.ones(env.num_envs, np.bool_)
    yield None, {}
    for number in count():
        allowed: dict[str, Any] = {} if masks is None else {"action_masks": masks.read(number)}
        actions, states = model.predict(
            observations, state=states, episode_start=episode_starts, deterministic=deterministic, **allowed
        )
        if all_infos:
            step, variables = _step_with_infos(env, observations, actions, states, episode_starts)
        else:
            step, variables = env.step_arrays(actions), {}
        yield step, variables
        observations = copy_observation(step.observations)  # a predictor may keep what it is shown
        # a row that only reset its environment hands out the first observation of an episode, as an end does
        episode_starts = _ends(step) if step.valid is None else _ends(step) | ~step.valid


def _step_with_infos(
    env: VecEnv, observations: Observation, actions: Array, states: Any, episode_starts: Array
) -> tuple[StepArrays, dict[str, Any]]:
    """One step with all infos, and the variables that a callback may read."""
    new_observations, rewards, dones, infos = env.step(actions)
    return arrays_from_step(new_observations, rewards, dones, infos), {
        "env": env,
        "observations": observations,
        "actions": actions,
        "states": states,
        "episode_starts": episode_starts,
        "new_observations": new_observations,
        "rewards": rewards,
        "dones": dones,
        "infos": infos,
    }


def _row_variables(variables: dict[str, Any], index: int) -> dict[str, Any]:
    return {
        "i": index,
        "reward": variables["rewards"][index],
        "done": variables["dones"][index],
        "info": variables["infos"][index],
    }


def _ends(step: StepArrays) -> Array:
    ends: Array = step.terminated | step.truncated  # [env] bool
    return ends


def _vector_env_as_given(env: Any) -> VecEnv:
    """``env`` as a vector environment, its images left as they are: a hand-written predictor may expect them so."""
    vec_env = as_vec_env(env, monitor=isinstance(env, str))  # nothing can stand between an id and its monitor
    if isinstance(vec_env, ForeignVecEnvAdapter) and vec_env.venv is not env:
        return ForeignVecEnvAdapter(env)
    return vec_env.venv if isinstance(vec_env, VecTransposeImage) and vec_env is not env else vec_env


def _warn_of_another_scale(model: Predictor, env: VecEnv) -> None:
    """A model that was trained on normalised observations makes nothing of others, and nobody would notice."""
    statistics = model.normalizer_statistics() if hasattr(model, "normalizer_statistics") else None
    normalizer = unwrap_vec_normalize(env)
    if statistics is None or not any(name.startswith("obs") for name in statistics):
        return
    if normalizer is None or has_seen_nothing(normalizer):
        warnings.warn(
            f"the model was trained on normalised observations, this environment "
            f"{'shows them as they are' if normalizer is None else 'has no statistics to normalise by'}. Give it "
            "VecNormalize(env, training=False, norm_reward=False) with the model's statistics: by load(path, env=…) or "
            "set_env(…), which pass them on, or by sync_envs_normalization(model.get_env(), env)",
            UserWarning,
            stacklevel=3,
        )


def _reports_episodes(env: VecEnv) -> bool:
    """Whether ``info["episode"]`` is there at the end of an episode, and only there."""
    if is_vecenv_wrapped(env, VecMonitor) or all(env.env_is_wrapped(Monitor)):
        return True
    while isinstance(env, VecEnvWrapper):
        env = env.venv
    return isinstance(env, VectorEnvAdapter | ForeignVecEnvAdapter)  # these see to it themselves
