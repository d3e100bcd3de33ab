"""An environment's state, taken, written down as plain data and put back elsewhere: what follows is the same, bit for
bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces, wrappers
from gymnasium.envs.toy_text import CliffWalkingEnv, TaxiEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from proximo.envs import (
    ActionMasker,
    AtariWrapper,
    DummyVecEnv,
    Monitor,
    SubprocVecEnv,
    TimeFeatureWrapper,
    VecCheckNan,
    VecEnv,
    VecEnvWrapper,
    VecExtractDictObs,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
    as_vec_env,
)
from proximo.envs.state.plain import generator_at, generator_state, plain_copy
from proximo.envs.testing import environments as testing
from proximo.errors import EnvironmentStateError
from proximo.files.encoding import decode, encode

Factory = Callable[[], gym.Env[Any, Any]]

CLASSIC = {
    "cartpole": partial(gym.make, "CartPole-v1"),
    "pendulum": partial(gym.make, "Pendulum-v1", max_episode_steps=12),
    "mountain car": partial(gym.make, "MountainCar-v0", max_episode_steps=12),
    "continuous mountain car": partial(gym.make, "MountainCarContinuous-v0", max_episode_steps=12),
    "acrobot": partial(gym.make, "Acrobot-v1", max_episode_steps=12),
}
TOY = {
    "frozen lake": partial(gym.make, "FrozenLake-v1"),
    "taxi": lambda: wrappers.TimeLimit(TaxiEnv(is_rainy=True, fickle_passenger=True), 12),
    "cliff walking": lambda: wrappers.TimeLimit(CliffWalkingEnv(is_slippery=True), 12),
    "blackjack": partial(gym.make, "Blackjack-v1"),
}
OURS = {
    "identity": partial(testing.IdentityEnv, 5, ep_length=12),
    "identity box": partial(testing.IdentityEnvBox, ep_length=12),
    "identity multi binary": partial(testing.IdentityEnvMultiBinary, 3, ep_length=12),
    "identity multi discrete": partial(testing.IdentityEnvMultiDiscrete, 3, ep_length=12),
    "masked": partial(testing.InvalidActionEnvDiscrete, 6, ep_length=12, n_invalid_actions=2),
    "masked multi discrete": partial(testing.InvalidActionEnvMultiDiscrete, [3, 3], ep_length=12, n_invalid_actions=2),
    "masked multi binary": partial(testing.InvalidActionEnvMultiBinary, 4, ep_length=12, n_invalid_actions=2),
    "fake image": partial(testing.FakeImageEnv, screen_height=8, screen_width=8),
    "bit flipping": partial(testing.BitFlippingEnv, 4, max_steps=9),
    "constant reward": testing.ConstantRewardEnv,
    "delayed reward": testing.DelayedRewardEnv,
    "action matters": testing.ActionMattersEnv,
    "match observation": testing.MatchObservationEnv,
    "endless": testing.EndlessEnv,
}
MUJOCO_V5 = ["Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedPendulum"]
MUJOCO_V5 += ["InvertedDoublePendulum", "Pusher", "Reacher", "Swimmer", "Walker2d"]


def classic_wrappers() -> gym.Env[Any, Any]:
    env: gym.Env[Any, Any] = gym.make("Pendulum-v1", max_episode_steps=12)
    env = wrappers.RecordEpisodeStatistics(env)
    env = wrappers.ClipAction(wrappers.RescaleAction(env, -1.0, 1.0))
    env = wrappers.StickyAction(env, 0.3)
    env = wrappers.NormalizeReward(wrappers.NormalizeObservation(env))
    env = wrappers.TransformObservation(env, lambda observation: observation * 2.0, env.observation_space)
    env = wrappers.TransformReward(env, lambda reward: reward * 0.5)
    env = wrappers.FrameStackObservation(env, 3)
    env = wrappers.FlattenObservation(env)
    return wrappers.DtypeObservation(wrappers.DelayObservation(env, 1), np.float32)


def our_wrappers() -> gym.Env[Any, Any]:
    env = testing.HideVelocity(gym.make("CartPole-v1", max_episode_steps=15))
    return ActionMasker(TimeFeatureWrapper(env), lambda _: [True, True])


def atari(**settings: Any) -> gym.Env[Any, Any]:
    pytest.importorskip("ale_py")
    return AtariWrapper(gym.make("BreakoutNoFrameskip-v4"), **settings)


def atari_v5() -> gym.Env[Any, Any]:
    pytest.importorskip("ale_py")  # which registers the games
    return gym.make("ALE/Breakout-v5", max_episode_steps=60)


WRAPPED = {"classic wrappers": classic_wrappers, "our wrappers": our_wrappers}
FACTORIES: dict[str, Factory] = {**CLASSIC, **TOY, **OURS, **WRAPPED}


def in_process(factory: Factory, seed: int, num_envs: int = 2) -> VecEnv:
    vec_env = DummyVecEnv([lambda: Monitor(factory())] * num_envs)
    vec_env.seed(seed)
    vec_env.reset()
    return vec_env


def in_workers(factory: Factory, seed: int) -> VecEnv:
    vec_env = SubprocVecEnv([lambda: Monitor(factory())] * 2, envs_per_worker=2)
    vec_env.seed(seed)
    vec_env.reset()
    return vec_env


def actions_for(vec_env: VecEnv, count: int, seed: int = 0) -> list[Any]:
    space = deepcopy(vec_env.action_space)  # the environment may draw from its own
    space.seed(seed)
    return [np.stack([space.sample() for _ in range(vec_env.num_envs)]) for _ in range(count)]


def play(vec_env: VecEnv, actions: list[Any]) -> list[Any]:
    """Every outcome, but for the seconds on the clock."""
    outcomes = []
    for action in actions:
        observations, rewards, dones, infos = vec_env.step(action)
        outcomes.append(deepcopy([observations, rewards, dones, infos, vec_env.reset_infos]))
        for info in outcomes[-1][3]:
            info.get("episode", {}).pop("t", None)
    return outcomes


def through_a_file(state: Any) -> Any:
    """The state as a checkpoint holds it, JSON and tensors, read back."""
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(encode(state, tensors), allow_nan=False)
    return decode(json.loads(text), tensors)


def assert_same(left: Any, right: Any, where: str = "") -> None:
    assert type(left) is type(right), where
    if isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for key in left:
            assert_same(left[key], right[key], f"{where}[{key!r}]")
    elif isinstance(left, list | tuple):
        assert len(left) == len(right), where
        for index, (mine, other) in enumerate(zip(left, right, strict=True)):
            assert_same(mine, other, f"{where}[{index}]")
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype, where
        assert left.shape == right.shape, where
        assert left.tobytes() == right.tobytes(), where
    else:
        assert left == right, where


def check_resumes(original: VecEnv, others: list[VecEnv], before: int = 17, after: int = 40) -> None:
    """Play, take the state, play on; then put the state into other environments and play on alike."""
    actions = actions_for(original, before + after)
    play(original, actions[:before])
    assert original.has_state()
    state = through_a_file(original.get_state())
    expected = play(original, actions[before:])
    assert any(outcome[2].any() for outcome in expected)
    for other in others:
        play(other, actions_for(other, 5, seed=9))
        other.set_state(state)
        assert_same(play(other, actions[before:]), expected)


@pytest.mark.parametrize("name", FACTORIES)
def test_in_process(name: str) -> None:
    check_resumes(in_process(FACTORIES[name], 1), [in_process(FACTORIES[name], 5)])


@pytest.mark.parametrize("name", ["cartpole", "pendulum", "taxi", "fake image", "bit flipping", *WRAPPED])
def test_between_workers_and_in_process(name: str) -> None:
    make = FACTORIES[name]
    others = [in_process(make, 5), in_workers(make, 7)]
    try:
        check_resumes(original := in_workers(make, 1), others)
        check_resumes(others[0], [original])
    finally:
        original.close()
        others[1].close()


@pytest.mark.slow
@pytest.mark.parametrize("name", FACTORIES)
def test_every_one_in_workers(name: str) -> None:
    original, other = in_workers(FACTORIES[name], 1), in_workers(FACTORIES[name], 5)
    try:
        check_resumes(original, [other])
    finally:
        original.close()
        other.close()


@pytest.mark.parametrize("task", MUJOCO_V5)
def test_mujoco(task: str) -> None:
    pytest.importorskip("mujoco")
    make = partial(gym.make, f"{task}-v5", max_episode_steps=30)
    check_resumes(in_process(make, 1), [in_process(make, 5)])


def test_mujoco_of_version_4_and_in_workers() -> None:
    pytest.importorskip("mujoco")
    make = partial(gym.make, "Ant-v4", max_episode_steps=30)
    workers = in_workers(make, 5)
    try:
        check_resumes(in_process(make, 1), [in_process(make, 3), workers])
    finally:
        workers.close()


@pytest.mark.parametrize("settings", [{}, {"action_repeat_probability": 0.25, "terminal_on_life_loss": False}])
def test_atari(settings: dict[str, Any]) -> None:
    make = partial(atari, **settings)
    check_resumes(in_process(make, 1), [in_process(make, 5)], before=25, after=220)


def test_atari_v5_in_workers() -> None:
    workers = in_workers(atari_v5, 5)
    try:
        check_resumes(in_process(atari_v5, 1), [workers], before=25, after=90)
    finally:
        workers.close()


def test_wrappers_of_stable_baselines3() -> None:
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    atari_wrappers = pytest.importorskip("stable_baselines3.common.atari_wrappers")

    def make() -> gym.Env[Any, Any]:
        pytest.importorskip("ale_py")
        game = gym.make("BreakoutNoFrameskip-v4")
        return monitor.Monitor(atari_wrappers.AtariWrapper(game, action_repeat_probability=0.25))

    check_resumes(in_process(make, 1), [in_process(make, 5)], before=25, after=120)


@settings(max_examples=25, deadline=None)
@given(before=st.integers(0, 60), after=st.integers(40, 60), seed=st.integers(0, 1000))
def test_at_any_moment(before: int, after: int, seed: int) -> None:
    make = CLASSIC["cartpole"]
    check_resumes(in_process(make, seed), [in_process(make, seed + 1)], before, after)


def test_wrappers_of_vector_environments() -> None:
    def build(seed: int) -> VecEnv:
        inner = DummyVecEnv([partial(testing.SimpleMultiObsEnv, random_start=False)] * 2)
        inner.seed(seed)
        stacked = VecFrameStack(VecTransposeImage(VecMonitor(inner)), 3)
        vec_env = VecCheckNan(VecNormalize(VecExtractDictObs(stacked, "vec")))
        vec_env.reset()
        return vec_env

    check_resumes(build(1), [build(5)], before=50, after=120)


def test_statistics_without_the_environments() -> None:
    """As resuming with reseeded environments wants it: unknown environments do not stand in the way."""

    def build() -> VecNormalize:
        vec_env = VecNormalize(DummyVecEnv([Unknown]))
        vec_env.seed(1)
        vec_env.reset()
        return vec_env

    original, other = build(), build()
    play(original, actions_for(original, 10))
    state = through_a_file(original.get_state(inner=False))
    original.seed(3)
    original.reset()
    expected_state = original.get_state(inner=False)
    expected = play(original, actions_for(original, 10))
    other.set_state(state)
    assert_same(other.get_state(inner=False), state)
    other.seed(3)
    other.reset()
    assert_same(other.get_state(inner=False), expected_state)
    assert_same(play(other, actions_for(original, 10)), expected)


class PlainWrapper(VecEnvWrapper):
    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        return self.venv.step_wait()


def test_wrapper_that_tells_nothing() -> None:
    vec_env = PlainWrapper(in_process(CLASSIC["cartpole"], 0))
    assert not vec_env.has_state()
    with pytest.raises(EnvironmentStateError, match=r"PlainWrapper.*own_state.*boundary mode"):
        vec_env.get_state()
    state = vec_env.get_state(inner=False)
    assert state == {"wrapper": "PlainWrapper", "own": {}, "inner": {}}
    vec_env.set_state(state)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_synchronous_vector_environment(mode: AutoresetMode) -> None:
    def build(seed: int) -> VecEnv:
        vec_env = as_vec_env(SyncVectorEnv([partial(gym.make, "CartPole-v1")] * 3, autoreset_mode=mode))
        vec_env.seed(seed)
        vec_env.reset()
        return vec_env

    for before in (8, 17, 23):  # one of them right after an end
        check_resumes(build(1), [build(5)], before)


def test_vectorised_cartpole() -> None:
    def build(seed: int) -> VecEnv:
        vec_env = as_vec_env(gym.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point"))
        vec_env.seed(seed)
        vec_env.reset()
        return vec_env

    check_resumes(build(1), [build(5)])


class Unknown(gym.Env[Any, Any]):
    """A walk whose steps are random, and of which nobody knows the state."""

    observation_space = spaces.Box(-100.0, 100.0, (1,), dtype=np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.position = np.zeros(1, np.float32)
        return self.position.copy(), {}

    def step(self, action: Any) -> Any:
        self.position += np.float32(self.np_random.normal())
        return self.position.copy(), 1.0, bool(abs(self.position[0]) > 2.0), False, {}


class Telling(Unknown):
    def get_state(self) -> dict[str, Any]:
        return {"position": self.position, "more": (1, {"name": np.float32(0.1)})}

    def set_state(self, state: dict[str, Any]) -> None:
        assert_same(state["more"], (1, {"name": np.float32(0.1)}))
        self.position = state["position"]
        self.np_random.normal(size=3)  # what set_state draws does not count


class TellingTooMuch(Unknown):
    def get_state(self) -> dict[str, Any]:
        return {"position": {"x": {1, 2}}}

    def set_state(self, state: dict[str, Any]) -> None: ...


class UnknownWrapper(gym.Wrapper[Any, Any, Any, Any]): ...


def test_environment_that_tells_its_own_state() -> None:
    check_resumes(in_process(Telling, 1), [in_process(Telling, 5)])


@pytest.mark.parametrize("build", [in_process, in_workers])
@pytest.mark.parametrize("factory", [Unknown, lambda: UnknownWrapper(gym.make("CartPole-v1"))])
def test_unknown_environment(build: Callable[..., VecEnv], factory: Factory) -> None:
    vec_env = build(factory, 0)
    kind = type(factory()).__qualname__
    try:
        assert not vec_env.has_state()
        with pytest.raises(EnvironmentStateError, match=rf"{kind} .*get_state.*boundary mode"):
            vec_env.get_state()
        vec_env.step([0, 0])  # it goes on
    finally:
        vec_env.close()


def test_state_that_is_no_plain_data() -> None:
    with pytest.raises(EnvironmentStateError, match=r"TellingTooMuch\['position'\]\['x'\] is an object of class set"):
        in_process(TellingTooMuch, 0).get_state()


def test_state_of_other_environments() -> None:
    cartpole, pendulum = in_process(CLASSIC["cartpole"], 0), in_process(CLASSIC["pendulum"], 0)
    with pytest.raises(EnvironmentStateError, match=r"state is of .*CartPoleEnv, the environment is .*PendulumEnv"):
        pendulum.set_state(cartpole.get_state())
    with pytest.raises(EnvironmentStateError, match="state is of 2 environments, here are 3"):
        in_process(CLASSIC["cartpole"], 0, num_envs=3).set_state(cartpole.get_state())
    with pytest.raises(EnvironmentStateError, match="without wrapper, here is VecMonitor"):
        VecMonitor(in_process(lambda: testing.EndlessEnv(3), 0)).set_state(cartpole.get_state())


def test_state_of_an_env_pool() -> None:
    envpool = pytest.importorskip("envpool")
    vec_env = as_vec_env(envpool.make("CartPole-v1", env_type="gymnasium", num_envs=2))
    assert not vec_env.has_state()
    with pytest.raises(EnvironmentStateError, match="boundary mode"):
        vec_env.get_state()
    vec_env.close()


def test_seeds_and_options_that_wait_for_a_reset() -> None:
    original, other = in_process(CLASSIC["cartpole"], 0), in_process(CLASSIC["cartpole"], 1)
    original.seed(11)
    original.set_options({"low": -0.01, "high": 0.01})
    other.set_state(through_a_file(original.get_state()))
    assert_same(other.reset(), original.reset())


def test_masks_of_workers_follow_the_state() -> None:
    original, other = in_workers(OURS["masked"], 1), in_workers(OURS["masked"], 2)
    try:
        other.action_masks()
        play(original, actions_for(original, 5))
        other.set_state(original.get_state())
        assert_same(other.action_masks(), original.action_masks())
    finally:
        original.close()
        other.close()


def test_monitor_files_go_on_without_gap_or_repeat(tmp_path: Path) -> None:
    def build(name: str, seed: int) -> VecEnv:
        inner = DummyVecEnv([lambda: Monitor(testing.EndlessEnv(4), tmp_path / f"{name}-single")])
        vec_env = VecMonitor(inner, tmp_path / f"{name}-vector")
        vec_env.reset()
        return vec_env

    def rows(name: str) -> list[str]:
        lines = (tmp_path / f"{name}.monitor.csv").read_text().splitlines()[1:]
        return [",".join(line.split(",")[:2]) for line in lines]  # all but the time

    original = build("killed", 1)
    actions = actions_for(original, 30)
    play(original, actions[:10])
    state = through_a_file(original.get_state())
    play(original, actions[10:17])  # episodes after the checkpoint, which count no more
    original.close()
    resumed = build("killed", 1)  # the same files, begun again
    resumed.set_state(state)
    play(resumed, actions[10:])
    resumed.close()
    play(whole := build("whole", 1), actions)
    whole.close()
    assert len(rows("whole-single")) == 1 + 7
    assert rows("killed-single") == rows("whole-single")
    assert rows("killed-vector") == rows("whole-vector")


def test_seeded_reset_of_a_lost_life_is_a_real_one() -> None:
    env = atari()
    first, _ = env.reset(seed=3)
    while not env.step(1)[2]:
        pass
    assert_same(env.reset(seed=3)[0], first)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda parts: st.lists(parts) | st.tuples(parts, parts) | st.dictionaries(st.text(min_size=1), parts),
        max_leaves=10,
    )
)
def test_plain_data_comes_back_with_its_types(value: Any) -> None:
    assert_same(plain_copy(value, "value"), value)


@pytest.mark.parametrize("value", [np.float32(0.1), np.arange(3), np.zeros((0, 2)), np.bool_(True), [np.int8(3)]])
def test_arrays_come_back_with_their_types(value: Any) -> None:
    assert_same(through_a_file(plain_copy(value, "value")), value)


@pytest.mark.parametrize("value", [{(1, 2): 3}, {1}, np.array(["a"]), np.array([None]), object(), b"bytes"])
def test_what_is_no_plain_data(value: Any) -> None:
    with pytest.raises(EnvironmentStateError, match="the value"):
        plain_copy(value, "the value")


def test_the_error_names_the_part() -> None:
    with pytest.raises(EnvironmentStateError, match=r"the value\['a'\]\[1\]\['b'\] is an object of class set"):
        plain_copy({"a": [0, {"b": {1}}]}, "the value")


def test_a_copy_shares_no_memory() -> None:
    small, large = np.zeros(3), np.zeros(100)
    copy = plain_copy([small, large], "value")
    small += 1.0
    large += 1.0
    assert [part.sum() for part in copy] == [0.0, 0.0]


@pytest.mark.parametrize("kind", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_generators_of_every_kind(kind: str) -> None:
    generator = np.random.Generator(getattr(np.random, kind)(3))
    generator.integers(10, size=3, dtype=np.uint32)  # leaves half a number over
    state = through_a_file(generator_state(generator, "generator"))
    other = generator_at(state, np.random.default_rng(5))
    assert other is not None
    assert_same(other.normal(size=5), generator.normal(size=5))
    assert_same(other.integers(10, size=3, dtype=np.uint32), generator.integers(10, size=3, dtype=np.uint32))


def test_unknown_generator() -> None:
    with pytest.raises(EnvironmentStateError, match="unknown random generator 'system'"):
        generator_at({"bit_generator": "system"}, None)
