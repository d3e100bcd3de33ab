"""Nested observations are flattened once, where they enter, and every layer behind sees a flat dictionary.

A vector environment shows tuples of arrays as tuples.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from proximo import PPO, RecurrentPPO, evaluate
from proximo.envs import (
    DummyVecEnv,
    SubprocVecEnv,
    VecEnvWrapper,
    VecFrameStack,
    VecNormalize,
    as_vec_env,
    check_env,
    make_vec_env,
)
from proximo.functional.spaces import NestedObservation, batch_observation
from proximo.training.checkpoints import PeriodicCheckpoints

SPACE = spaces.Dict(
    sensors=spaces.Dict(camera=spaces.Box(0, 255, (40, 36, 3), np.uint8), touch=spaces.MultiBinary(2)),
    goal=spaces.Tuple([spaces.Discrete(3), spaces.Tuple([spaces.Box(-1, 1, (2,), np.float32)])]),
)
NAMES = {"goal/0", "goal/1/0", "sensors/camera", "sensors/touch"}


class Nested(gym.Env):
    """Reward 1 for the action named by the goal, which is deep in the observation."""

    observation_space = SPACE
    action_space = spaces.Discrete(3)

    def _observe(self):
        self.goal = int(self.np_random.integers(3))
        camera = np.full((40, 36, 3), self.time, np.uint8)
        sensors = {"camera": camera, "touch": np.array([self.time % 2, 1], np.int8)}
        return {"sensors": sensors, "goal": (self.goal, (np.full(2, self.time / 10, np.float32),))}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action):
        reward = float(action == self.goal)
        self.time += 1
        return self._observe(), reward, False, self.time >= 5, {}


class Pair(gym.Env):
    """The wanted action is the first part of a Tuple."""

    observation_space = spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)])
    action_space = spaces.Discrete(3)

    def _observe(self):
        self.goal = int(self.np_random.integers(3))
        return self.goal, np.zeros(2, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action):
        reward = float(action == self.goal)
        self.time += 1
        return self._observe(), reward, False, self.time >= 20, {}


KINDS = {
    "in process": lambda: DummyVecEnv([Nested, Nested]),
    "workers": lambda: SubprocVecEnv([Nested, Nested], start_method="fork"),
    "gymnasium's loop": lambda: as_vec_env(SyncVectorEnv([Nested, Nested])),
    "gymnasium's loop, same step": lambda: as_vec_env(
        SyncVectorEnv([Nested, Nested], autoreset_mode=AutoresetMode.SAME_STEP)
    ),
    "gymnasium's workers": lambda: as_vec_env(AsyncVectorEnv([Nested, Nested], shared_memory=False)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_flat_at_the_boundary(kind):
    env = KINDS[kind]()
    space = env.observation_space
    inner = space["sensors/camera"]
    assert set(space.spaces) == NAMES
    assert (inner.shape, inner.dtype) in (((40, 36, 3), np.uint8), ((3, 40, 36), np.uint8))
    env.seed(0)
    observations = env.reset()
    for time in range(1, 6):
        assert observations.keys() == NAMES
        assert observations["goal/1/0"].shape == (2, 2)
        np.testing.assert_allclose(observations["goal/1/0"], (time - 1) / 10)
        step = env.step_arrays(observations["goal/0"])
        assert step.rewards.tolist() == [1.0, 1.0]
        observations = step.observations
    assert step.truncated.all()
    final = step.final_observations[1]
    assert final.keys() == NAMES
    assert (final["sensors/camera"] == 5).all()
    assert final["sensors/touch"].tolist() == [1, 1]
    assert space.contains({name: np.asarray(final[name], space[name].dtype) for name in NAMES} | {"goal/0": 1})
    env.close()


def test_single_environments_keep_their_structure():
    env = DummyVecEnv([Nested])
    assert env.envs[0].observation_space == SPACE
    assert env.get_attr("observation_space") == [SPACE]


@pytest.mark.parametrize("make", [Pair, lambda: SyncVectorEnv([Pair, Pair])])
def test_training_reads_the_parts(make):
    model = PPO(
        "MultiInputPolicy", make(), n_steps=256, batch_size=128, ent_coef=0.01, learning_rate=3e-3, gamma=0.0, seed=1
    ).learn(4_096)
    assert evaluate(model, make_vec_env(Pair, seed=5), 5).mean == 20.0
    observation = (2, np.zeros(2, np.float32))
    assert model.predict(observation, deterministic=True)[0] == 2
    batch = (np.array([0, 1]), np.zeros((2, 2), np.float32))
    assert model.predict(batch, deterministic=True)[0].tolist() == [0, 1]


def test_images_memory_and_normalisation_in_depth():
    env = VecNormalize(make_vec_env(Nested, 2, seed=0), norm_obs_keys=["goal/1/0"])
    model = RecurrentPPO("MultiInputLstmPolicy", env, n_steps=16, batch_size=16, n_epochs=1, seed=0).learn(32)
    assert model.observation_space["sensors/camera"].shape == (3, 40, 36)
    nested = Nested()
    observation, _ = nested.reset(seed=3)
    flat = NestedObservation(SPACE).flatten(observation)
    action, state = model.predict(observation, deterministic=True)
    same, _ = model.predict(flat, deterministic=True)
    assert action == same
    assert state[0].shape[1] == 1


def test_files_and_other_environments(tmp_path):
    model = PPO("MultiInputPolicy", Pair(), n_steps=8, batch_size=8, n_epochs=1, seed=0).learn(8)
    model.save(tmp_path / "model")
    again = PPO.load(tmp_path / "model", env=Pair())
    again.learn(8)
    observation = Pair().reset(seed=0)[0]
    assert again.predict(observation)[0] in (0, 1, 2)


class TestBatches:
    SPACE = NestedObservation(SPACE).space

    def observation(self, rows=()):
        camera, touch = np.zeros((*rows, 40, 36, 3), np.uint8), np.zeros((*rows, 2), np.int8)
        goal = (np.zeros(rows, int), (np.zeros((*rows, 2), np.float32),))
        return {"sensors": {"camera": camera, "touch": touch}, "goal": goal}

    @pytest.mark.parametrize("rows", [(), (4,)])
    def test_shapes(self, rows):
        batch, vectorized = batch_observation(self.observation(rows), self.SPACE)
        assert vectorized == bool(rows)
        count = rows[0] if rows else 1
        assert {name: part.shape for name, part in batch.items()} == {
            "goal/0": (count,),
            "goal/1/0": (count, 2),
            "sensors/camera": (count, 40, 36, 3),
            "sensors/touch": (count, 2),
        }

    def test_missing_part(self):
        observation = self.observation()
        del observation["sensors"]["touch"]
        with pytest.raises(ValueError, match=r"lacks the keys \['sensors/touch'\]"):
            batch_observation(observation, self.SPACE)

    def test_result_of_reset_is_explained(self):
        with pytest.raises(ValueError, match=r"obs, info = env\.reset"):
            batch_observation((self.observation(), {}), self.SPACE)


def test_names_that_collide():
    space = spaces.Dict({"a/b": spaces.Discrete(2), "a": spaces.Dict(b=spaces.Discrete(2))})
    with pytest.raises(ValueError, match="same name"):
        NestedObservation(space)


def test_check_env_accepts_nested_observations(recwarn):
    check_env(Nested())
    check_env(Pair())
    assert not [str(warning.message) for warning in recwarn]


def test_a_vec_env_that_shows_nested_observations_is_told():
    class Careless(VecEnvWrapper):
        def __init__(self, venv):
            super().__init__(venv, observation_space=SPACE)

        def reset(self): ...

        def step_wait(self): ...

    with pytest.raises(NotImplementedError, match=r"nested observations.*NestedObservation"):
        as_vec_env(Careless(DummyVecEnv([Nested])))


PARTS = [spaces.Discrete(100), *(spaces.Box(-1, 1, (2,), np.float32) for _ in range(10))]  # "10" sorts before "2"


class Eleven(gym.Env):
    """A tuple of eleven parts, each of which tells its place; two steps an episode."""

    observation_space = spaces.Tuple(PARTS)
    action_space = spaces.Discrete(2)

    def _observe(self):
        return self.time, *(np.full(2, place / 10, np.float32) for place in range(1, 11))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action):
        self.time += 1
        return self._observe(), 1.0, False, self.time == 2, {}


def played(env):
    """Everything that a reset and three steps show."""
    steps = [env.reset(), *(env.step(np.zeros(2, int)) for _ in range(3))]
    env.close()
    return env.observation_space, steps


@pytest.mark.parametrize("kind", ["DummyVecEnv", "SubprocVecEnv", "VecMonitor", "VecCheckNan"])
def test_tuples_are_shown_as_stable_baselines3_shows_them(kind):
    from stable_baselines3.common import vec_env as theirs

    from proximo import envs as ours

    def make(library):
        if kind == "SubprocVecEnv":
            return library.SubprocVecEnv([Eleven, Eleven], start_method="fork")
        plain = library.DummyVecEnv([Eleven, Eleven])
        return plain if kind == "DummyVecEnv" else getattr(library, kind)(plain)

    (space, (first, *steps)), (their_space, (their_first, *their_steps)) = played(make(ours)), played(make(theirs))
    assert space == their_space
    assert isinstance(first, tuple)
    for one, other in zip(
        [first, *(step[0] for step in steps)], [their_first, *(step[0] for step in their_steps)], strict=True
    ):
        assert [part.shape for part in one] == [part.shape for part in other]
        assert [part.dtype for part in one] == [part.dtype for part in other]
        assert all(np.array_equal(mine, yours) for mine, yours in zip(one, other, strict=True))
    final, their_final = (run[1][3][0]["terminal_observation"] for run in (steps, their_steps))
    assert isinstance(final, tuple)
    assert all(np.array_equal(mine, yours) for mine, yours in zip(final, their_final, strict=True))


class KeptPair(Pair):
    """Its state can be taken."""

    def get_state(self):
        return {"goal": self.goal, "time": self.time, "random": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.goal, self.time = state["goal"], state["time"]
        self.np_random.bit_generator.state = state["random"]


@pytest.mark.parametrize("workers", [False, True], ids=["in process", "workers"])
def test_training_on_tuples_goes_on_exactly(tmp_path, workers):
    """The view that training steps adds nothing to a checkpoint, and the model shows what it was given."""

    def vector():
        return SubprocVecEnv([KeptPair] * 2, start_method="fork") if workers else DummyVecEnv([KeptPair] * 2)

    def model(env):
        return PPO("MultiInputPolicy", env, n_steps=16, batch_size=16, n_epochs=2, seed=1)

    given = vector()
    whole, first = model(vector()).learn(64), model(given)
    assert first.get_env() is given
    observations = given.reset()
    assert isinstance(observations, tuple)
    assert first.predict(observations)[0].shape == (2,)
    model(vector()).learn(64, callback=PeriodicCheckpoints(tmp_path, every_steps=32))
    again = PPO.load(sorted(tmp_path.rglob("*.zip"))[1], env=vector())
    assert again.num_timesteps == 32
    again.resume()
    assert again.num_timesteps == 64
    for one, other in zip(whole.policy.parameters(), again.policy.parameters(), strict=True):
        assert np.array_equal(one.detach(), other.detach())


def test_wrappers_that_read_arrays_say_what_a_tuple_needs():
    env = DummyVecEnv([Pair])
    for wrapper in (VecNormalize, lambda env: VecFrameStack(env, 2)):
        with pytest.raises((ValueError, TypeError), match="as_vec_env"):
            wrapper(env)
    assert VecNormalize(as_vec_env(env), norm_obs_keys=["1"]).reset()["1"].shape == (1, 2)
