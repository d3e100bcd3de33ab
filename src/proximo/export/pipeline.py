"""What happens to an observation between the environment and the policy: normalisation, and images turned.

Parts of an observation have names here; that of an observation without parts is the empty one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from proximo.data import Array, Observation
from proximo.envs import VecCheckNan, VecMonitor, VecNormalize, VecTransposeImage, VecVideoRecorder
from proximo.envs.vector.normalize import normalizer_settings, normalizer_state
from proximo.errors import ExportError
from proximo.files.normalizer_file import NormalizerFile
from proximo.functional.spaces import Space, is_image_space, transpose_image
from proximo.other_libraries import counts_as

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm

PLAIN = ""
PASSING = (VecMonitor, VecCheckNan, VecVideoRecorder)  # wrappers that show observations as they are
DEFAULTS = {"clip_obs": 10.0, "epsilon": 1e-8}  # of VecNormalize


def by_name(observation: Observation) -> dict[str, Array]:
    return observation if isinstance(observation, dict) else {PLAIN: observation}


def as_given(parts: Mapping[str, Array]) -> Observation:
    """The other way round."""
    return parts[PLAIN] if PLAIN in parts else dict(parts)


def parts_of(space: Space) -> dict[str, Space]:
    return dict(space.spaces) if isinstance(space, spaces.Dict) else {PLAIN: space}


class Normalize(nn.Module):
    """What ``VecNormalize`` does, in float64 as there."""

    def __init__(self, content: NormalizerFile) -> None:
        super().__init__()
        settings = {**DEFAULTS, **content.settings}
        self.epsilon, self.clip = float(settings["epsilon"]), float(settings["clip_obs"])
        self.moments = moments_of(content.state)
        for index, (mean, var) in enumerate(self.moments.values()):
            self.register_buffer(f"mean_{index}", torch.as_tensor(mean))
            self.register_buffer(f"deviation_{index}", torch.as_tensor(np.sqrt(var + self.epsilon)))

    def forward(self, parts: dict[str, Tensor]) -> dict[str, Tensor]:
        changed = dict(parts)
        for index, name in enumerate(self.moments):
            mean, deviation = getattr(self, f"mean_{index}"), getattr(self, f"deviation_{index}")
            scaled = (parts[name].double() - mean) / deviation
            changed[name] = scaled.clamp(-self.clip, self.clip).float()
        return changed

    def reference(self, observation: Observation) -> Observation:
        """The same in NumPy, as ``VecNormalize`` computes it."""
        parts = dict(by_name(observation))
        for name, (mean, var) in self.moments.items():
            scaled = np.subtract(parts[name], mean, dtype=np.float64) / np.sqrt(var + self.epsilon)
            parts[name] = np.clip(scaled, -self.clip, self.clip).astype(np.float32)
        return as_given(parts)


class TurnImages(nn.Module):
    """Images from height × width × channel to channel × height × width."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def forward(self, parts: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: part.permute(0, 3, 1, 2) if name in self.names else part for name, part in parts.items()}

    def reference(self, observation: Observation) -> Observation:
        parts = by_name(observation)
        return as_given({name: transpose_image(part) if name in self.names else part for name, part in parts.items()})


@dataclass(frozen=True)
class Step:
    """One change of an observation: as a part of the graph, and as the environment's wrapper does it."""

    module: Normalize | TurnImages
    reference: Callable[[Any], Any]


@dataclass(frozen=True)
class Pipeline:
    """From what the graph is given to what the policy reads."""

    space: Space  # of what the graph is given
    steps: tuple[Step, ...]

    def reference(self, observation: Observation) -> Observation:
        for step in self.steps:
            observation = step.reference(observation)
        return observation

    def moments(self) -> dict[str, tuple[Array, Array]]:
        """Mean and variance of the parts that are normalised as the graph is given them."""
        first = self.steps[0].module if self.steps else None
        return first.moments if isinstance(first, Normalize) else {}

    def describe(self) -> dict[str, Any]:
        """For the metadata: what the graph does by itself, and how images lie."""
        found: dict[str, Any] = {"normalization": None, "images": {}}
        for step in self.steps:
            if isinstance(step.module, Normalize):
                names = list(step.module.moments)
                found["normalization"] = {"parts": names, "clip": step.module.clip, "epsilon": step.module.epsilon}
        turned = [name for step in self.steps if isinstance(step.module, TurnImages) for name in step.module.names]
        for name, part in parts_of(self.space).items():
            if is_image_space(part):
                found["images"][name] = "HWC" if name in turned else "CHW"
        return found


def observation_pipeline(model: OnPolicyAlgorithm, normalizer: NormalizerFile | None = None) -> Pipeline:
    """Follow the wrappers from the policy towards the environment, as far as the graph can do what they do.

    ``normalizer`` are statistics for a model that has none of its own, such as one of Stable-Baselines3's files.
    """
    steps: list[Step] = []
    env: Any = model.get_env()
    while (inner := getattr(env, "venv", None)) is not None:
        if counts_as(env, VecNormalize):
            if env.norm_obs:
                content = NormalizerFile(normalizer_settings(env), normalizer_state(env))
                steps.insert(0, Step(Normalize(content), env.normalize_obs))
        elif counts_as(env, VecTransposeImage):
            if not getattr(env, "skip", False):
                names = list(env.image_space_keys) if isinstance(env.observation_space, spaces.Dict) else [PLAIN]
                steps.insert(0, Step(TurnImages(names), env.transpose_observations))
        elif not any(counts_as(env, passing) for passing in PASSING):
            _check_nothing_below(env, inner)
            break
        env = inner
    space = model.observation_space if env is None else _flat_space(env, model)
    own = next((step for step in steps if isinstance(step.module, Normalize)), None)
    if (others := _statistics_without_env(model, normalizer, own is not None)) is not None:
        module = Normalize(others)
        steps.insert(0, Step(module, module.reference))
    for step in steps:
        if isinstance(step.module, Normalize):
            _check_shapes(step.module, steps[0] is step, space, model.observation_space)
    return Pipeline(space, tuple(steps))


def moments_of(state: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
    """Mean and variance of each part's observations, of the statistics that ``VecNormalize.state`` gives."""
    names = [name.removesuffix(".mean") for name in state if name.startswith("obs_rms") and name.endswith(".mean")]
    return {name.partition("/")[2]: (state[f"{name}.mean"], state[f"{name}.var"]) for name in names}


def _flat_space(env: Any, model: OnPolicyAlgorithm) -> Space:
    """The space that an environment shows; an adapter flattens nested ones of another library, and the model saw it."""
    space: Space = env.observation_space
    nested = isinstance(space, spaces.Tuple) or (
        isinstance(space, spaces.Dict)
        and any(isinstance(part, spaces.Dict | spaces.Tuple) for part in space.spaces.values())
    )
    return model.observation_space if nested else space


def _check_nothing_below(env: Any, inner: Any) -> None:
    while inner is not None:
        if counts_as(inner, VecNormalize) and inner.norm_obs:
            raise ExportError(
                f"VecNormalize lies below {type(env).__name__}, which may change what it has normalised: the graph "
                "cannot do both. Wrap the environment in VecNormalize last, and train on that"
            )
        inner = getattr(inner, "venv", None)


def _statistics_without_env(
    model: OnPolicyAlgorithm, given: NormalizerFile | None, has_own: bool
) -> NormalizerFile | None:
    """The statistics that the caller or the model's file has, where no wrapper has them."""
    if has_own:
        if given is not None:
            raise ExportError(
                "statistics of VecNormalize were given, but the model's environment has its own; leave them out"
            )
        return None
    if given is None:
        state = model.normalizer_statistics()
        if state is None or not moments_of(state):
            return None
        settings = model.normalizer_settings()
        if settings is None:
            warnings.warn(
                "the model's file tells the statistics of VecNormalize but not its clip_obs and epsilon; the defaults "
                f"are taken, {DEFAULTS}. If they were others, load the model with its environment",
                stacklevel=4,
            )
        given = NormalizerFile(settings or {}, state)
    if not moments_of(given.state):
        raise ExportError("the statistics of VecNormalize hold none of observations (norm_obs=False); leave them out")
    return given


def _check_shapes(module: Normalize, is_first: bool, given: Space, read: Space) -> None:
    parts = parts_of(given if is_first else read)
    for name, (mean, _) in module.moments.items():
        if name not in parts or parts[name].shape != mean.shape:
            what = f"the part {name!r}" if name else "observations"
            raise ExportError(
                f"the statistics of VecNormalize are of {what} with shape {mean.shape}, which {given} does not have; "
                "give the statistics that the model was trained with"
            )
