"""Everything that decides how a training goes on, as plain values and arrays: taken between two iterations.

A checkpoint is a model file with this state beside the weights. Between iterations nothing is under way: the rollout
is used up, the update done, its log written, and the noise of exploration is drawn by the next rollout.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from proximo.config import FRACTION
from proximo.data import RNNStates
from proximo.envs.state.plain import checked_generator_state, set_space_states, space_states, take_rows
from proximo.envs.vector.vec_env import copy_observation
from proximo.errors import ModelFileError, NonFiniteError, ProximoError
from proximo.files.plain_text import brief, printable
from proximo.networks.network_size import UNBUILDABLE
from proximo.persistence.exactness import ENVIRONMENTS_ARE_RESET, say_inexact
from proximo.persistence.versions import differences, versions_of
from proximo.rollout.collector import Collector
from proximo.training.callback_base import BaseCallback, callback_states, restore_callback_states
from proximo.training.loggers import Logger

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm

State = dict[str, Any]

VERSION = 2
_EPISODE_KEYS = ("r", "l", "t")


def take(model: OnPolicyAlgorithm, callback: BaseCallback | None, boundary: bool = False, exact: bool = True) -> State:
    """The state of a training; at a ``boundary`` the environments are seeded and reset, so theirs is one number.

    ``EnvironmentStateError`` for environments that cannot give their state, where it is needed; without ``exact`` it is
    left out, and whoever goes on from here resets them.
    """
    collector = model._required_collector()
    seed = _seed_and_reset(model) if boundary else None
    return {
        "version": VERSION,
        "progress": _progress(model),
        **_of_environments(collector, boundary, exact),
        "boundary_seed": seed,
        "reset_seed": None if exact else _seed_after(model),
        "episodes": [
            {key: episode[key] for key in _EPISODE_KEYS if key in episode} for episode in model.ep_info_buffer
        ],
        "successes": [float(success) for success in model.ep_success_buffer],
        "memory": _memory(model),
        "parts": {name: part.state_dict() for name, part in _parts(model).items()},
        "logger": model.logger.get_state() if isinstance(model.logger, Logger) else None,
        "callbacks": [] if callback is None else callback_states(callback),
        "random": _random_states(model),
        "versions": _versions(model),
    }


def _of_environments(collector: Collector, boundary: bool, exact: bool) -> State:
    """Where the environments stand, of all processes together: by their number among all, not by whose they are."""
    env, exchange, observations = collector.env, collector.exchange, collector.observations if exact else None
    state = env.get_state(inner=exact and not boundary)
    if exchange is None:
        seen = None if observations is None else copy_observation(observations)
        return {"environments": state, "observations": seen, "episode_starts": collector.episode_starts.copy()}
    return {
        "environments": env.join_states(exchange.group.gather(state, "a checkpoint")),
        "observations": None if observations is None else exchange.gather_rows(observations),
        "episode_starts": exchange.gather_rows(collector.episode_starts),
    }


def _set_environments(collector: Collector, state: Mapping[str, Any]) -> None:
    """Take over what :func:`_of_environments` gave: all of it, or this process's rows."""
    exchange = collector.exchange
    if exchange is None:
        collector.env.set_state(state["environments"])
        collector.observations = state["observations"]
        collector.episode_starts = state["episode_starts"]
        return
    rows = exchange.share.rows
    collector.env.set_state(collector.env.part_of_state(state["environments"], rows))
    collector.observations = None if state["observations"] is None else take_rows(state["observations"], rows)
    collector.episode_starts = state["episode_starts"][rows]


def restore(model: OnPolicyAlgorithm, callback: BaseCallback, state: Mapping[str, Any]) -> None:
    """Go on from a state of :func:`take`; weights and optimiser come from the model file around it."""
    version = state.get("version") if isinstance(state, Mapping) else None
    if version not in (1, VERSION):
        raise ModelFileError(
            f"the checkpoint's training state is of version {brief(version)}, this Proximo reads versions 1 to "
            f"{VERSION}; resume with the version that saved it"
        )
    try:
        if version == 1:
            state = {**state, "environments": of_version_1(state["environments"])}
        if len(state["episode_starts"]) != model.n_envs:
            taken = (
                f"the checkpoint was taken with {len(state['episode_starts'])} environments, here are {model.n_envs}"
            )
            say_inexact([taken], model.strict_resume)
            return
        reasons = [] if state.get("reset_seed") is None else [ENVIRONMENTS_ARE_RESET]
        reasons += differences(state.get("versions", {}), _versions(model))
        if model.strict_resume:
            say_inexact(reasons, strict=True)  # before anything is changed
        _restore(model, callback, state)
    except UNBUILDABLE as error:
        if isinstance(error, ProximoError):
            raise
        raise ModelFileError(
            f"the checkpoint's training state does not fit ({type(error).__name__}: {printable(str(error), 1000)}); "
            "resume with the environments and callbacks it was taken with"
        ) from error
    gaps = model._required_collector().env.unwrapped.state_gaps
    reasons += [f"what is not in the state of the environments: {', '.join(gaps)}"] if gaps else []
    say_inexact(reasons, model.strict_resume)


def _restore(model: OnPolicyAlgorithm, callback: BaseCallback, state: Mapping[str, Any]) -> None:
    collector = model._required_collector()
    if state["boundary_seed"] is not None:
        collector.env.reset()  # with the run's own seed: PyBullet's later resets go back to what the first one made
        _seed_environments(collector, state["boundary_seed"])
        collector.env.reset()
    _set_environments(collector, state)
    if (reset_seed := state.get("reset_seed")) is not None:
        # after the wrappers have their statistics back, by which the first observations are normalised
        _seed_environments(collector, reset_seed)
        collector.reset()
    model.ep_info_buffer.clear()
    model.ep_info_buffer.extend(state["episodes"])
    model.ep_success_buffer.clear()
    model.ep_success_buffer.extend(state["successes"])
    _set_memory(model, state["memory"])
    _set_progress(model, state["progress"])
    for name, part in _parts(model).items():
        if name in state["parts"]:
            part.load_state_dict(state["parts"][name])
    if isinstance(model.logger, Logger) and state["logger"] is not None:
        model.logger.set_state(state["logger"])
    restore_callback_states(callback, state["callbacks"])
    _set_random_states(model, state["random"])  # last: whatever came before may have drawn


def of_version_1(value: Any) -> Any:
    """A state of environments as Proximo 0.1.0 wrote it: tuples and NumPy scalars had forms of their own.

    >>> of_version_1([{"__tuple__": [1, np.array(2.5)]}])
    [(1, np.float64(2.5))]
    """
    match value:
        case np.ndarray(ndim=0):
            return value[()]
        case list():
            return [of_version_1(item) for item in value]
        case {"__tuple__": [*items], **others} if not others:
            return tuple(of_version_1(item) for item in items)
        case dict():
            return {key: of_version_1(item) for key, item in value.items()}
    return value


def check_finite(model: OnPolicyAlgorithm) -> None:
    """Refuse to save weights or an optimiser's state that are no numbers: no training goes on from there."""
    moments = model.policy.optimizer.state.values()
    named = [*model.policy.state_dict().items()]
    named += [(f"optimiser's {name}", value) for entry in moments for name, value in entry.items()]
    for name, value in named:
        if isinstance(value, torch.Tensor) and value.is_floating_point() and not torch.isfinite(value).all():
            raise NonFiniteError(
                f"{name} holds NaN or infinity after {model.num_timesteps} steps: this is not saved as a checkpoint; "
                "go on from an earlier one, with a lower learning rate or gradient norm"
            )


def _versions(model: OnPolicyAlgorithm) -> dict[str, str]:
    """Asked for once: environments in workers answer by message."""
    env = model._required_collector().env
    if model._versions_of is not env:
        model._versions, model._versions_of = versions_of(env), env
    return dict(model._versions)


def _seed_and_reset(model: OnPolicyAlgorithm) -> int:
    """Begin new episodes from a seed that follows from the run's seed and from how often this was done before."""
    collector = model._required_collector()
    seed = int(model.generator.integers(2**31 - model.n_envs))
    _seed_environments(collector, seed)
    collector.reset()
    return seed


def _seed_after(model: OnPolicyAlgorithm) -> int:
    """A seed for environments that are reset after a resume; drawing it leaves the run's generator where it is."""
    return int(deepcopy(model.generator).integers(2**31 - model.n_envs))


def _seed_environments(collector: Collector, seed: int) -> None:
    collector.env.seed(seed + (0 if collector.exchange is None else collector.exchange.share.first))


def _progress(model: OnPolicyAlgorithm) -> State:
    return {
        "num_timesteps": model.num_timesteps,
        "total_timesteps": model._total_timesteps,
        "num_timesteps_at_start": model._num_timesteps_at_start,
        "iteration": model._iteration,
        "n_updates": model._n_updates,
        "remaining": model._current_progress_remaining,
        "nanoseconds": time.monotonic_ns() - model._started,
    }


def _set_progress(model: OnPolicyAlgorithm, progress: Mapping[str, Any]) -> None:
    counts = {name: value for name, value in progress.items() if name != "remaining"}
    if not all(type(value) is int and abs(value) < 2**62 for value in counts.values()):
        raise ValueError("the counters of its progress are no whole numbers")
    if not FRACTION.fits(progress["remaining"]):
        raise ValueError(f"the progress that remains is {brief(progress['remaining'])}, not from 0 to 1")
    model.num_timesteps = progress["num_timesteps"]
    model._num_timesteps_at_start = progress["num_timesteps_at_start"]
    model._iteration = progress["iteration"]
    model._n_updates = progress["n_updates"]
    model._current_progress_remaining = progress["remaining"]
    model._started = time.monotonic_ns() - progress["nanoseconds"]


def _memory(model: OnPolicyAlgorithm) -> State | None:
    """What a policy with memory remembers of the current episodes."""
    states, exchange = model.runtime.states, model._exchange
    if states is not None and exchange is not None:
        parts = zip(*exchange.group.gather([part.cpu() for part in states.parts()], "a checkpoint"), strict=True)
        whole = [torch.cat(part, dim=1) for part in parts]
        states = RNNStates(tuple(whole[: len(states.pi)]), tuple(whole[len(states.pi) :]))
    return None if states is None else {"pi": list(states.pi), "vf": list(states.vf)}


def _set_memory(model: OnPolicyAlgorithm, memory: Mapping[str, Any] | None) -> None:
    if memory is not None and model.policy.recurrent:
        rows = slice(None) if model._exchange is None else model._exchange.share.rows
        pi, vf = (tuple(part[:, rows].contiguous().to(model.device) for part in memory[name]) for name in ("pi", "vf"))
        model.runtime.states = RNNStates(pi, vf)


def _parts(model: OnPolicyAlgorithm) -> dict[str, Any]:
    """Objects with ``state_dict`` and ``load_state_dict`` that are trained beside the policy."""
    own = {} if model.intrinsic_reward is None else {"intrinsic_reward": model.intrinsic_reward}
    return {**own, **model.companions}


def _random_states(model: OnPolicyAlgorithm) -> State:
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - the global generator, which users' code draws from
        "torch": torch.get_rng_state(),
        "device": _device_random_state(model.device),
        "model": model.generator.bit_generator.state,
        "action_space": space_states(model.action_space, "action_space"),
    }


def _device_random_state(device: torch.device) -> State | None:
    """Of the accelerator's own generator; None on the CPU, and where PyTorch cannot tell it."""
    if device.type == "cpu" or not hasattr(torch.get_device_module(device), "get_rng_state"):
        return None
    arguments = () if device.type == "mps" else (device,)  # there is but one
    return {"type": device.type, "state": torch.get_device_module(device).get_rng_state(*arguments)}


def _set_device_random_state(device: torch.device, states: Mapping[str, Any]) -> None:
    """Only where the training goes on with the kind of device that it had."""
    stored = states.get("device")
    if states.get("cuda") is not None:  # as version 0.1.0 wrote it
        stored = {"type": "cuda", "state": states["cuda"]}
    if stored is not None and stored["type"] == device.type:
        arguments = () if device.type == "mps" else (device,)
        torch.get_device_module(device).set_rng_state(stored["state"], *arguments)


def _set_random_states(model: OnPolicyAlgorithm, states: Mapping[str, Any]) -> None:
    random.setstate(states["python"])
    np.random.set_state(checked_generator_state(states["numpy"]))  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    _set_device_random_state(model.device, states)
    model.generator.bit_generator.state = checked_generator_state(states["model"])
    set_space_states(model.action_space, states["action_space"])
