"""Which wrappers and environments of other authors have which state, and how it is taken and put back.

Classes are named, not imported: most of them are optional. A name stands for that very class; what derives from it
may keep more.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space

from proximo.envs.state.plain import plain_copy, set_space_states, space_states
from proximo.errors import EnvironmentStateError


class StateMethods(NamedTuple):
    """How to take the state of one wrapper or environment, without what it wraps, and put it back."""

    take: Callable[[Any], dict[str, Any]]
    put: Callable[[Any, Mapping[str, Any]], None]


_CLASSIC = "gymnasium.envs.classic_control"
_TOY = "gymnasium.envs.toy_text"
_COMMON = "gymnasium.wrappers.common"
_OBSERVATION = "gymnasium.wrappers.stateful_observation"
_OWN = "proximo"
_SB3 = "stable_baselines3.common"

_IDENTITY = ("state", "current_step", "num_resets")
_MASKED = (*_IDENTITY, "invalid_actions", "_mask")
_RECORDED = ("episode_count", "episode_returns", "episode_lengths", "time_queue", "return_queue", "length_queue")
_FOLLOWED = ("rewards", "needs_reset", "episode_returns", "episode_lengths", "episode_times", "total_steps")

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    f"{_CLASSIC}.acrobot.AcrobotEnv": ("state",),
    f"{_CLASSIC}.cartpole.CartPoleEnv": ("state", "steps_beyond_terminated"),
    f"{_CLASSIC}.cartpole.CartPoleVectorEnv": ("state", "steps", "prev_done", "low", "high", "steps_beyond_terminated"),
    f"{_CLASSIC}.continuous_mountain_car.Continuous_MountainCarEnv": ("state",),
    f"{_CLASSIC}.mountain_car.MountainCarEnv": ("state",),
    f"{_CLASSIC}.pendulum.PendulumEnv": ("state", "last_u"),
    f"{_TOY}.blackjack.BlackjackEnv": ("dealer", "player", "dealer_top_card_suit", "dealer_top_card_value_str"),
    f"{_TOY}.cliffwalking.CliffWalkingEnv": ("s", "lastaction"),
    f"{_TOY}.frozen_lake.FrozenLakeEnv": ("s", "lastaction"),
    f"{_TOY}.taxi.TaxiEnv": ("s", "lastaction", "fickle_step", "taxi_orientation"),
    "gymnasium.vector.sync_vector_env.SyncVectorEnv": ("_autoreset_envs",),
    f"{_COMMON}.Autoreset": ("autoreset",),
    f"{_COMMON}.OrderEnforcing": ("_has_reset",),
    f"{_COMMON}.PassiveEnvChecker": ("checked_reset", "checked_step", "checked_render", "checked_data_reuse"),
    f"{_COMMON}.TimeLimit": ("_elapsed_steps",),
    "gymnasium.wrappers.atari_preprocessing.AtariPreprocessing": ("obs_buffer", "lives", "game_over"),
    "gymnasium.wrappers.stateful_action.RepeatAction": (),
    "gymnasium.wrappers.stateful_action.StickyAction": (
        "last_action",
        "is_sticky_actions",
        "num_repeats",
        "repeats_taken",
    ),
    f"{_OBSERVATION}.DelayObservation": ("observation_queue",),
    f"{_OBSERVATION}.FrameStackObservation": ("obs_queue", "padding_value"),
    f"{_OBSERVATION}.MaxAndSkipObservation": ("_obs_buffer",),
    f"{_OBSERVATION}.NormalizeObservation": ("obs_rms.mean", "obs_rms.var", "obs_rms.count", "_update_running_mean"),
    f"{_OBSERVATION}.TimeAwareObservation": ("timesteps",),
    "gymnasium.wrappers.stateful_reward.NormalizeReward": (
        "return_rms.mean",
        "return_rms.var",
        "return_rms.count",
        "discounted_reward",
        "_update_running_mean",
    ),
    **{
        f"gymnasium.wrappers.transform_{kind}.{name}{kind.capitalize()}": ()
        for kind, names in {
            "action": ("Clip", "Discretize", "Rescale", "Transform"),
            "observation": (
                "Discretize",
                "Dtype",
                "Filter",
                "Flatten",
                "Grayscale",
                "Rescale",
                "Reshape",
                "Resize",
                "Transform",
            ),
            "reward": ("Clip", "Transform"),
        }.items()
        for name in names
    },
    **{
        f"{module}.{name}": names
        for module in (_OWN, f"{_SB3}.atari_wrappers")
        for name, names in {
            "AtariWrapper": (),
            "ClipRewardEnv": (),
            "EpisodicLifeEnv": ("lives", "was_real_done"),
            "FireResetEnv": (),
            "MaxAndSkipEnv": ("_last_two",) if module == _OWN else ("_obs_buffer",),
            "NoopResetEnv": ("override_num_noops",),
            "StickyActionEnv": ("_sticky_action",),
            "WarpFrame": (),
        }.items()
    },
    f"{_SB3}.monitor.Monitor": (*_FOLLOWED, "current_reset_info"),
    f"{_OWN}.ActionMasker": (),
    f"{_OWN}.FrameSkip": (),
    f"{_OWN}.MaskVelocityWrapper": (),
    f"{_OWN}.TimeFeatureWrapper": ("_current_step",),
    f"{_OWN}.ActionMattersEnv": (),
    f"{_OWN}.BitFlippingEnv": ("state", "current_step", "_bits"),
    f"{_OWN}.ConstantRewardEnv": (),
    f"{_OWN}.DelayedRewardEnv": ("_second",),
    f"{_OWN}.EndlessEnv": ("_steps",),
    f"{_OWN}.FakeImageEnv": ("current_step",),
    f"{_OWN}.HideVelocity": (),
    f"{_OWN}.IdentityEnv": _IDENTITY,
    f"{_OWN}.IdentityEnvBox": _IDENTITY,
    f"{_OWN}.IdentityEnvMultiBinary": _IDENTITY,
    f"{_OWN}.IdentityEnvMultiDiscrete": _IDENTITY,
    f"{_OWN}.InvalidActionEnvDiscrete": _MASKED,
    f"{_OWN}.InvalidActionEnvMultiBinary": _MASKED,
    f"{_OWN}.InvalidActionEnvMultiDiscrete": _MASKED,
    f"{_OWN}.MatchObservationEnv": ("_wanted",),
    f"{_OWN}.SimpleMultiObsEnv": ("state", "count", "log", "state_mapping"),
}
"""The attributes that change while the environment runs, by class; a dot leads into an object."""


def known_methods(layer: Any) -> StateMethods | None:
    """How the state of a wrapper or environment is taken, if it is known here."""
    kind = class_name(layer)
    if kind == f"{_COMMON}.RecordEpisodeStatistics":
        return StateMethods(_take_statistics, _put_statistics)
    if kind == f"{_COMMON}.PassiveEnvChecker":
        return StateMethods(lambda _: {}, _end_checks)
    if kind in ATTRIBUTES:
        names = ATTRIBUTES[kind]
        return StateMethods(partial(take_attributes, names), partial(put_attributes, names))
    if kind.startswith("gymnasium.envs.mujoco.") and not kind.startswith("gymnasium.envs.mujoco.mujoco_py_env."):
        return StateMethods(_take_mujoco, _put_mujoco)
    if kind == "ale_py.env.AtariEnv":
        return StateMethods(_take_atari, _put_atari)
    return None


def class_name(thing: object) -> str:
    return stable_name(f"{type(thing).__module__}.{type(thing).__qualname__}")


def stable_name(name: str) -> str:
    """The name of a class in saved states: for the library's own without its module, which another version may move.

    >>> stable_name("proximo.envs.wrappers.monitor.Monitor"), stable_name("gymnasium.wrappers.common.TimeLimit")
    ('proximo.Monitor', 'gymnasium.wrappers.common.TimeLimit')
    """
    package, _, path = name.partition(".")
    return f"{_OWN}.{path.rpartition('.')[2]}" if package == _OWN else name


def take_attributes(names: tuple[str, ...], thing: Any) -> dict[str, Any]:
    """Those of the named attributes that the thing has by now, as plain data."""
    state = {}
    for name in names:
        owner, last = _owner(thing, name)
        if hasattr(owner, last):
            value = getattr(owner, last)
            where = f"{class_name(thing)}.{name}"
            state[name] = space_states(value, where) if isinstance(value, Space) else plain_copy(_listed(value), where)
    return state


def put_attributes(names: tuple[str, ...], thing: Any, state: Mapping[str, Any]) -> None:
    for name in names:
        if name not in state:
            continue
        owner, last = _owner(thing, name)
        current = getattr(owner, last, None)
        if isinstance(current, Space):
            set_space_states(current, state[name])
        elif isinstance(current, deque):
            current.clear()
            current.extend(deepcopy(state[name]))
        else:
            setattr(owner, last, deepcopy(state[name]))


def _owner(thing: Any, name: str) -> tuple[Any, str]:
    *path, last = name.split(".")
    for part in path:
        thing = getattr(thing, part)
    return thing, last


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, deque) else value


def _end_checks(checker: Any, state: Mapping[str, Any]) -> None:
    """It looks at the first reset and step after it was made; there is no reset before the next step now."""
    checker.checked_reset = checker.checked_step = checker.checked_data_reuse = True


def _take_statistics(wrapper: Any) -> dict[str, Any]:
    elapsed = time.perf_counter() - wrapper.episode_start_time
    return take_attributes(_RECORDED, wrapper) | {"elapsed_seconds": elapsed}


def _put_statistics(wrapper: Any, state: Mapping[str, Any]) -> None:
    put_attributes(_RECORDED, wrapper, state)
    wrapper.episode_start_time = time.perf_counter() - state["elapsed_seconds"]


_MUJOCO_READINGS = (
    *("xpos", "xquat", "xmat", "xipos", "ximat", "xanchor", "xaxis"),
    *("geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "cam_xpos", "cam_xmat", "light_xpos", "light_xdir"),
    *("subtree_com", "cinert", "cvel", "cacc", "cfrc_int", "cfrc_ext"),
    *("qacc", "qfrc_actuator", "qfrc_bias", "qfrc_passive", "qfrc_constraint", "actuator_force"),
    *("actuator_length", "actuator_velocity", "ten_length", "ten_velocity", "sensordata"),
)
"""What the last simulation step computed on its way, half a step behind positions and velocities; tasks read it
before the next step (Ant its torso's ``xpos``), so computing it again from the restored positions would not do."""

_MUJOCO_GOALS = ("goal", "goal_pos", "cylinder_pos")  # of Reacher and Pusher


def _take_mujoco(env: Any) -> dict[str, Any]:
    import mujoco

    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    integration = np.empty(mujoco.mj_stateSize(env.model, kind))
    mujoco.mj_getState(env.model, env.data, integration, kind)
    readings = {name: np.array(getattr(env.data, name)) for name in _MUJOCO_READINGS}
    return {"integration": integration, "readings": readings, "goals": take_attributes(_MUJOCO_GOALS, env)}


def _put_mujoco(env: Any, state: Mapping[str, Any]) -> None:
    import mujoco

    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    integration = np.asarray(state["integration"])
    if len(integration) != mujoco.mj_stateSize(env.model, kind):
        raise EnvironmentStateError(
            f"the state of {class_name(env)} has {len(integration)} numbers, its simulation here has "
            f"{mujoco.mj_stateSize(env.model, kind)}; use the same model and version of mujoco"
        )
    mujoco.mj_setState(env.model, env.data, integration, kind)
    for name, values in state["readings"].items():
        if name in _MUJOCO_READINGS:
            getattr(env.data, name)[...] = values
    put_attributes(_MUJOCO_GOALS, env, state["goals"])


def _take_atari(env: Any) -> dict[str, Any]:
    return {"system": np.frombuffer(env.ale.cloneSystemState().serialize(), np.uint8)}


def _put_atari(env: Any, state: Mapping[str, Any]) -> None:
    import ale_py

    env.ale.restoreSystemState(ale_py.ALEState(np.asarray(state["system"], np.uint8).tobytes()))
