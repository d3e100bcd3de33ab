"""Running normalisation of observations and rewards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from gymnasium import spaces

from proximo.data import Array, Observation, Share, StepArrays
from proximo.distributed import Group
from proximo.envs.adapters.foreign import without_adapter
from proximo.envs.vector.normalize_kernels import Kernels, kernels_if_cheap, merged_rewards
from proximo.envs.vector.vec_env import (
    StepTransform,
    VecEnv,
    copy_observation,
    map_final_observations,
    unwrap_vec_wrapper,
)
from proximo.errors import ArgumentValueError, MissingKeyError, ModelFileError, near_matches
from proximo.files.plain_text import printable
from proximo.functional.spaces import is_image_space
from proximo.functional.statistics import RowMoments, RunningMeanStd
from proximo.other_libraries import counts_as, stands_for

UpdateEvery: TypeAlias = Literal["step", "rollout"]


@stands_for("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
class VecNormalize(StepTransform):
    """Show observations with mean 0 and variance 1, and rewards divided by the deviation of their discounted sum.

    observation → clip((observation − mean) / √(variance + ε), ±clip_obs);
    reward → clip(reward / √(variance of returns + ε), ±clip_reward), where returns ← γ · returns + reward.
    Statistics are taken in while ``training`` is True; set it to False (and ``norm_reward`` too) to evaluate.
    Of a ``Dict`` space, ``norm_obs_keys`` (all, if None) are normalised.
    """

    obs_rms: RunningMeanStd | dict[str, RunningMeanStd]
    old_obs: Observation

    def __init__(
        self,
        venv: VecEnv,
        training: bool = True,
        norm_obs: bool = True,
        norm_reward: bool = True,
        clip_obs: float = 10.0,
        clip_reward: float = 10.0,
        gamma: float = 0.99,
        epsilon: float = 1e-8,
        norm_obs_keys: list[str] | None = None,
        update_every: UpdateEvery = "step",
    ) -> None:
        """Arguments:
        venv: The vector environment that is wrapped.
        training: Whether the statistics follow what is seen; False for evaluation.
        norm_obs: Whether observations are normalised.
        norm_reward: Whether rewards are.
        clip_obs: Normalised observations are kept within ± this.
        clip_reward: Normalised rewards are kept within ± this.
        gamma: Discount of the sums whose deviation divides rewards; take the agent's.
        epsilon: Added to variances, against division by zero.
        norm_obs_keys: Keys of a Dict observation that are normalised; None is all of them, which must be Box.
        update_every: When the statistics follow what is seen: at each "step", as in Stable-Baselines3, or at the end
            of each "rollout" (those of the very first reset at once). Processes that train together then exchange
            nothing at a step.
        """
        super().__init__(venv)
        if update_every not in get_args(UpdateEvery):
            raise ArgumentValueError(
                f"update_every is {update_every!r}; expected 'step' (the statistics follow each step) or 'rollout' "
                "(they stand still until a rollout is over)"
            )
        self.training = training
        self.norm_obs = norm_obs
        self.norm_reward = norm_reward
        self.clip_obs = clip_obs
        self.clip_reward = clip_reward
        self.gamma = gamma
        self.epsilon = epsilon
        self.norm_obs_keys = norm_obs_keys
        self.update_every = update_every
        if norm_obs:
            self._prepare_observations()
        self.ret_rms = RunningMeanStd(shape=())
        self.returns = np.zeros(self.num_envs)
        self.old_reward: Array = np.array([])
        self._together: tuple[Group, Sequence[Share]] | None = None
        self._pending: dict[str, RowMoments] = {}  # what this rollout has shown, by the names of the statistics

    def share_with(self, group: Group, shares: Sequence[Share]) -> None:
        """Take in what the environments of all processes show, from here on: each update is an exchange of all.

        The statistics are then those of a single process with all environments, to the last bit. They go on from
        rank 0's.
        """
        self._together = group, shares
        self.load_state({**group.first(self.state(), "sharing normalisation statistics"), "returns": self.returns})

    def _prepare_observations(self) -> None:
        """Check the spaces, make their statistics, and show normalised images as what they are: floats."""
        space = self.observation_space
        if isinstance(space, spaces.Box):
            if self.norm_obs_keys is not None:
                raise ValueError(
                    f"norm_obs_keys={self.norm_obs_keys} needs a Dict observation space, this one is {space}"
                )
            self.obs_rms = RunningMeanStd(shape=space.shape)
            self.observation_space = self._shown_space(space)
        elif isinstance(space, spaces.Dict):
            if self.norm_obs_keys is None:
                self.norm_obs_keys = list(space.spaces)
            parts = {key: _box_of(space, key) for key in self.norm_obs_keys}
            self.obs_rms = {key: RunningMeanStd(shape=part.shape) for key, part in parts.items()}
            shown = {key: self._shown_space(part) for key, part in parts.items()}
            self.observation_space = spaces.Dict({**space.spaces, **shown})
        else:
            raise ValueError(
                f"VecNormalize normalises Box observations or a Dict of them, got {space}; set norm_obs=False, or wrap "
                "as_vec_env(env), which shows a Tuple as a Dict"
            )

    def _shown_space(self, space: spaces.Box) -> spaces.Box:
        # only images are marked: other bounds stay as they are, since saved policies hold them
        if not is_image_space(space):
            return space
        return spaces.Box(-self.clip_obs, self.clip_obs, space.shape, dtype=np.float32)

    def reset(self) -> Observation:
        observations = self.venv.reset()
        self.old_obs = observations
        self.returns = np.zeros(self.num_envs)
        # the very first ones count at once, or the first rollout would be shown raw
        at_once = self.update_every == "step" or has_seen_nothing(self)
        if self._together is not None and self.training and at_once:
            return self._take_in_together(observations, self.returns, None, learn_returns=False)
        return self._take_in_own(observations, at_once)

    def transform(self, step: StepArrays) -> StepArrays:
        self.old_obs, self.old_reward = step.observations, step.rewards
        at_once = self.update_every == "step"
        if self._together is not None and self.training and at_once:
            self._discount(step.rewards)
            observations = self._take_in_together(step.observations, self.returns, step.valid)
        else:
            observations = self._take_in_own(step.observations, at_once)
            if self.training:
                if step.valid is None:
                    self._update_reward(step.rewards)
                else:
                    self._update_reward(step.rewards, step.valid)
        rewards = self.normalize_reward(step.rewards)
        if not step.infos:
            return step._replace(observations=observations, rewards=rewards)
        self.returns[list(step.infos)] = 0.0
        final_observations = map_final_observations(step, self.normalize_obs)
        return step._replace(observations=observations, rewards=rewards, final_observations=final_observations)

    def end_rollout(self) -> None:
        """With ``update_every="rollout"``, let the statistics take in what was seen since the last call.

        Environments come in the order of their number, those of all processes that train together, which must all
        call. Training does it; who steps the environments otherwise has to.
        """
        if self.update_every == "step" or not self.training:
            return
        pending = {name: self._pending_of(name, statistics) for name, statistics in _statistics(self).items()}
        self._pending = {}
        if self._together is not None:
            pending = self._of_all(pending, *self._together)
        for name, statistics in _statistics(self).items():
            pending[name].merge_into(statistics)

    @staticmethod
    def _of_all(pending: Mapping[str, RowMoments], group: Group, shares: Sequence[Share]) -> dict[str, RowMoments]:
        whole = {name: RowMoments(shares[0].total, own.mean.shape[1:]) for name, own in pending.items()}
        parts = [(name, kind) for name, own in pending.items() for kind in own.arrays()]
        pairs = [(pending[name].arrays()[kind], whole[name].arrays()[kind], 0) for name, kind in parts]
        group.gather_rows(pairs, shares, "a rollout's normalisation")
        return whole

    def _pending_of(self, name: str, statistics: RunningMeanStd) -> RowMoments:
        if name not in self._pending:
            self._pending[name] = RowMoments(self.num_envs, statistics.mean.shape)
        return self._pending[name]

    def _take_in_own(self, observations: Observation, at_once: bool) -> Observation:
        """Learn from this process's observations, now or at the end of the rollout, and normalise them."""
        if self.training and not at_once:
            self._set_aside(observations)
        return self._take_in_observations(observations, self.training and at_once)

    def _set_aside(self, observations: Observation) -> None:
        """Keep the moments of observations for the end of the rollout."""
        for name, statistics in _statistics(self).items():
            if name == "ret_rms":
                continue
            part = observations[name.partition("/")[2]] if isinstance(observations, dict) else observations
            # each environment's rows by themselves: a process does not know whether another one's are finite
            finite = None if is_finite(part) else np.array([is_finite(row) for row in part])
            self._pending_of(name, statistics).add(part, finite)

    def _take_in_observations(self, observations: Observation, learn: bool) -> Observation:
        """Update the statistics if they are to learn, and normalise by them."""
        if not self.norm_obs:
            return self.normalize_obs(observations)
        if not isinstance(observations, dict) and (kernels := self._kernels_for(observations)) is not None:
            return self._take_in_compiled(kernels, observations, learn)
        if learn:
            self._each(lambda part, statistics: update_statistics(statistics, part), observations)
        return self.normalize_obs(observations)

    def _kernels_for(self, observations: Array) -> Kernels | None:
        # of a single feature NumPy sums the batch in another order than the kernel; a subclass may normalise otherwise
        fits = observations.dtype == np.float32 and observations.ndim == 2 and observations.shape[1] > 1
        return kernels_if_cheap() if fits and type(self).normalize_obs is VecNormalize.normalize_obs else None

    def _take_in_compiled(self, kernels: Kernels, observations: Array, learn: bool) -> Array:
        statistics: RunningMeanStd = self.obs_rms  # type: ignore[assignment]
        normalised = np.empty(observations.shape, np.float32)
        mean, var = np.array(statistics.mean, np.float64), np.array(statistics.var, np.float64)
        count = float(statistics.count)
        batch = np.ascontiguousarray(observations)
        learn = learn and is_finite(batch)
        kernels.observations(batch, mean, var, count, self.epsilon, self.clip_obs, learn, normalised)
        if learn:
            statistics.mean, statistics.var, statistics.count = mean, var, count + len(observations)
        return normalised

    def _take_in_together(
        self, observations: Observation, returns: Array, valid: Array | None, learn_returns: bool = True
    ) -> Observation:
        """The same with the rows of all processes' environments; gives this process's rows, normalised."""
        group, shares = self._together  # type: ignore[misc]
        total, names = shares[0].total, list(self.obs_rms) if self.norm_obs and isinstance(self.obs_rms, dict) else []
        parts = [observations[name] for name in names] if names else [observations] if self.norm_obs else []
        own = [*parts, returns, np.ones(self.num_envs, np.bool_) if valid is None else valid]
        whole = [np.empty((total, *part.shape[1:]), part.dtype) for part in own]
        pairs = [(part, target, 0) for part, target in zip(own, whole, strict=True)]
        group.gather_rows(pairs, shares, "a step's normalisation")
        *seen, all_returns, all_valid = whole
        if learn_returns:
            self._take_in_returns(all_returns if all_valid.all() else all_returns[all_valid])
        mine = shares[group.rank].rows
        if not self.norm_obs:
            return self.normalize_obs(observations)
        if not names:
            return self._take_in_observations(seen[0], learn=True)[mine]  # type: ignore[index]
        for name, part in zip(names, seen, strict=True):
            update_statistics(self.obs_rms[name], part)  # type: ignore[index]
        return self.normalize_obs(observations)

    def _update_reward(self, reward: Array, valid: Array | None = None) -> None:
        self._discount(reward)
        if self.update_every == "step":
            self._take_in_returns(self.returns if valid is None else self.returns[valid])
        else:
            self._pending_of("ret_rms", self.ret_rms).add(self.returns, valid)

    def _discount(self, reward: Array) -> None:
        if not is_finite(reward):
            reward = np.where(np.isfinite(reward), reward, 0.0)
        self.returns = self.returns * self.gamma + reward

    def _take_in_returns(self, returns: Array) -> None:
        if len(returns) == 0:
            return
        statistics, kernels = self.ret_rms, kernels_if_cheap()
        numbers = float(statistics.mean), float(statistics.var), float(statistics.count)
        if kernels is None:
            mean, var = merged_rewards(returns.tolist(), *numbers)
        else:
            mean, var = kernels.rewards(returns, *numbers)
        statistics.mean, statistics.var = np.float64(mean), np.float64(var)  # type: ignore[assignment]
        statistics.count += len(returns)

    def normalize_obs(self, obs: Observation) -> Observation:
        """Normalised copy of observations, with or without the env axis; leaves the statistics alone."""
        return self._each(self._normalize, obs) if self.norm_obs else deepcopy(obs)

    def _each(self, function: Callable[[Array, RunningMeanStd], Any], obs: Observation) -> Any:
        """Apply ``function`` to the normalised parts of an observation; of the others, give copies."""
        if isinstance(obs, dict) and isinstance(self.obs_rms, dict):
            statistics = self.obs_rms
            return {
                key: function(part, statistics[key]) if key in statistics else deepcopy(part)
                for key, part in obs.items()
            }
        return function(obs, self.obs_rms)  # type: ignore[arg-type]

    def _normalize(self, values: Array, statistics: RunningMeanStd) -> Array:
        scaled = np.asarray(np.subtract(values, statistics.mean, dtype=np.float64))
        scaled /= np.sqrt(statistics.var + self.epsilon)
        np.minimum(scaled, self.clip_obs, out=scaled)
        np.maximum(scaled, -self.clip_obs, out=scaled)
        return scaled.astype(np.float32)

    def normalize_reward(self, reward: Array) -> Array:
        """Normalised rewards as float32; leaves the statistics alone."""
        if self.norm_reward:
            deviation = math.sqrt(float(self.ret_rms.var) + self.epsilon)
            reward = np.asarray(np.true_divide(reward, deviation, dtype=np.float64))
            np.minimum(reward, self.clip_reward, out=reward)
            np.maximum(reward, -self.clip_reward, out=reward)
        return reward.astype(np.float32)

    def unnormalize_obs(self, obs: Observation) -> Observation:
        """The observations that :meth:`normalize_obs` would show as ``obs`` (but for clipping)."""
        return self._each(self._unnormalize, obs) if self.norm_obs else deepcopy(obs)

    def _unnormalize(self, values: Array, statistics: RunningMeanStd) -> Array:
        return values * np.sqrt(statistics.var + self.epsilon) + statistics.mean

    def unnormalize_reward(self, reward: Array) -> Array:
        """Rewards as the environment gave them, up to clipping."""
        return reward * np.sqrt(self.ret_rms.var + self.epsilon) if self.norm_reward else reward

    def get_original_obs(self) -> Observation:
        """The observations of the latest step or reset, as the environments gave them."""
        return deepcopy(self.old_obs)

    def get_original_reward(self) -> Array:
        """The rewards of the latest step, as the environments gave them."""
        return self.old_reward.copy()

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as they stand now, in plain JSON values."""
        return normalizer_settings(self)

    def state(self) -> dict[str, Array]:
        """All statistics as plain arrays: mean, variance and count by name, and the running returns."""
        return normalizer_state(self)

    def load_state(self, state: Mapping[str, Array | float]) -> None:
        """Take over what :meth:`state` gave; running returns only if the number of environments is the same."""
        load_normalizer_state(self, state)

    rows_in_state = (("statistics", "returns"), ("old_reward",), ("old_obs",), ("pending",))

    def own_state(self) -> dict[str, Any]:
        latest: dict[str, Any] = {"old_obs": copy_observation(self.old_obs)} if "old_obs" in self.__dict__ else {}
        if self.update_every == "rollout":
            latest["pending"] = {
                name: deepcopy(self._pending_of(name, statistics).arrays())
                for name, statistics in _statistics(self).items()
            }
        return {"statistics": self.state(), "old_reward": self.old_reward.copy(), **latest}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        self.load_state(state["statistics"])
        self.old_reward = np.array(state["old_reward"])
        if "old_obs" in state:
            self.old_obs = copy_observation(state["old_obs"])
        self._pending = {}
        for name, statistics in _statistics(self).items() if "pending" in state else ():
            for kind, part in self._pending_of(name, statistics).arrays().items():
                part[...] = state["pending"][name][kind]

    def save(self, save_path: str | Path) -> None:
        """Write settings and statistics to a safetensors file (plain arrays, nothing pickled), replacing atomically."""
        from proximo.files.normalizer_file import NormalizerFile, write_normalizer  # not needed to train

        write_normalizer(Path(save_path), NormalizerFile(self.settings(), self.state()))

    @staticmethod
    def load(load_path: str | Path, venv: VecEnv) -> VecNormalize:
        """Wrap ``venv`` with the settings and statistics of a file written by :meth:`save`.

        Pickles of Stable-Baselines3's VecNormalize are read too, by a reader that runs nothing of them.
        """
        from proximo.files.normalizer_file import read_normalizer

        settings, state = read_normalizer(Path(load_path))
        try:
            normalised = VecNormalize(venv, **settings)
            normalised.load_state(state)
        except (TypeError, ValueError) as error:
            raise ModelFileError(
                f"{load_path} does not fit these environments: {printable(str(error), 1000)}"
            ) from error
        return normalised

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("venv", "returns", "_together", "_pending")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __deepcopy__(self, memo: dict[int, Any]) -> VecNormalize:
        """A copy normalises environments of its own; only a pickle leaves them out, as Stable-Baselines3's does."""
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update(
            {name: value if name == "_together" else deepcopy(value, memo) for name, value in vars(self).items()}
        )
        return twin

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"update_every": "step", **state})
        self.venv = None
        self._together = None
        self._pending = {}

    def set_venv(self, venv: VecEnv) -> None:
        """Give an unpickled VecNormalize the environments it normalises."""
        if self.venv is not None:
            raise ValueError("this VecNormalize already wraps environments; make a new one, or VecNormalize.load(…)")
        shape, given = self.observation_space.shape, venv.observation_space.shape
        if shape != given:
            raise ValueError(f"the statistics are of observations of shape {shape}, the environments give {given}")
        self.venv = venv
        self.num_envs = venv.num_envs
        self.render_mode = venv.render_mode
        self.returns = np.zeros(self.num_envs)


# These read Stable-Baselines3's VecNormalize too, whose attributes have the same names.


def normalizer_settings(normalizer: Any) -> dict[str, Any]:
    """The constructor's arguments of a ``VecNormalize``, as its :meth:`VecNormalize.settings` gives them."""
    names = ("training", "norm_obs", "norm_reward", "clip_obs", "clip_reward", "gamma", "epsilon", "norm_obs_keys")
    return {**{name: getattr(normalizer, name) for name in names}, "update_every": _update_every(normalizer)}


def _update_every(normalizer: Any) -> UpdateEvery:
    # Stable-Baselines3's has no such attribute, and would look for it in the environments
    found: UpdateEvery = vars(normalizer).get("update_every", "step")
    return found


def normalizer_state(normalizer: Any) -> dict[str, Array]:
    """All statistics of a ``VecNormalize``, as its :meth:`VecNormalize.state` gives them."""
    return {
        f"{name}.{part}": np.asarray(getattr(statistics, part), np.float64)
        for name, statistics in _statistics(normalizer).items()
        for part in ("mean", "var", "count")
    } | {"returns": normalizer.returns.copy()}


def has_seen_nothing(normalizer: Any) -> bool:
    """Whether nothing has been counted yet (counts start at a fraction, against division by zero)."""
    return all(float(value) < 1.0 for name, value in normalizer_state(normalizer).items() if name.endswith(".count"))


def load_normalizer_state(normalizer: Any, state: Mapping[str, Array | float]) -> None:
    """Give a ``VecNormalize`` what :func:`normalizer_state` took from one."""
    mine = normalizer_state(normalizer)
    if state.keys() - {"returns"} != mine.keys() - {"returns"}:
        raise ValueError(
            f"normalisation statistics {sorted(state)} do not fit this VecNormalize, which has {sorted(mine)}; "
            "load them with the observation space and norm_obs settings they were taken with"
        )
    for name, statistics in _statistics(normalizer).items():
        mean, var = (np.array(state[f"{name}.{part}"], np.float64) for part in ("mean", "var"))
        if mean.shape != statistics.mean.shape or var.shape != statistics.var.shape:
            raise ValueError(
                f"{name} has shape {mean.shape}, this VecNormalize's observations have {statistics.mean.shape}"
            )
        statistics.mean, statistics.var, statistics.count = mean, var, float(state[f"{name}.count"])
    returns = np.array(state.get("returns", ()), np.float64)
    if returns.shape == normalizer.returns.shape:
        normalizer.returns = returns


def _statistics(normalizer: Any) -> dict[str, RunningMeanStd]:
    """Every running statistic by its name in :func:`normalizer_state`."""
    observations: dict[str, RunningMeanStd] = {}
    if normalizer.norm_obs:
        by_key = normalizer.obs_rms if isinstance(normalizer.obs_rms, dict) else {"": normalizer.obs_rms}
        observations = {f"obs_rms/{key}" if key else "obs_rms": rms for key, rms in by_key.items()}
    return {**observations, "ret_rms": normalizer.ret_rms}


def is_finite(batch: Array) -> bool:
    """Whether no number of it is NaN or infinite."""
    return bool(np.isfinite(batch).all())


def update_statistics(statistics: RunningMeanStd, batch: Array) -> None:
    """``statistics.update(batch)`` to the last bit, at half its price for the small batches of a step."""
    count = batch.shape[0]
    if not is_finite(batch):
        return  # one NaN would stay in the statistics for ever
    if batch.dtype not in (np.float32, np.float64) or count == 0:
        if count:
            statistics.update(batch)
        return
    if count == 1:
        statistics.update_from_moments(batch[0], batch[0] - batch[0], 1)
        return
    mean = np.add.reduce(batch, axis=0)
    mean /= count
    deviations = batch - mean
    deviations *= deviations
    variance = np.add.reduce(deviations, axis=0)
    variance /= count
    statistics.update_from_moments(mean, variance, count)


def unwrap_vec_normalize(env: VecEnv) -> VecNormalize | None:
    """The outermost ``VecNormalize`` around ``env``, or None."""
    return unwrap_vec_wrapper(env, VecNormalize)


def normalizers(env: Any) -> Iterator[VecNormalize]:
    """Every ``VecNormalize`` of this library around ``env``, the outermost first."""
    while (inner := getattr(env, "venv", None)) is not None:
        if isinstance(env, VecNormalize):
            yield env
        env = inner


def sync_envs_normalization(env: VecEnv, eval_env: VecEnv) -> None:
    """Copy the statistics of each ``VecNormalize`` around ``env`` to the one in the same place around ``eval_env``."""
    layer: Any = without_adapter(env)
    eval_layer: Any = without_adapter(eval_env)
    while hasattr(layer, "venv"):
        normalises = counts_as(layer, VecNormalize)
        if not hasattr(eval_layer, "venv") or normalises != counts_as(eval_layer, VecNormalize):
            raise ArgumentValueError(
                f"the evaluation environment has {type(eval_layer).__name__} where the training environment has "
                f"{type(layer).__name__}; wrap both the same way"
            )
        if normalises:
            if "obs_rms" in layer.__dict__:
                eval_layer.obs_rms = deepcopy(layer.obs_rms)
            eval_layer.ret_rms = layer.ret_rms.copy()
        layer, eval_layer = layer.venv, eval_layer.venv


def _box_of(space: spaces.Dict, key: str) -> spaces.Box:
    if key not in space.spaces:
        raise MissingKeyError(
            f"norm_obs_keys has {key!r}, which the observations lack: {near_matches(key, space.spaces)}"
        )
    part = space.spaces[key]
    if not isinstance(part, spaces.Box):
        raise ValueError(f"observation {key!r} is {part}, not a Box; name the keys to normalise in norm_obs_keys")
    return part
