"""Action masks reach the learner from every kind of environment, and are the environment's own at every step."""

from __future__ import annotations

import re
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv as ForeignDummyVecEnv

from proximo import MaskablePPO
from proximo.envs import (
    ActionMasker,
    DummyVecEnv,
    Monitor,
    SubprocVecEnv,
    VecNormalize,
    as_vec_env,
    get_action_masks,
    is_masking_supported,
    make_vec_env,
)
from proximo.envs.testing.environments import (
    InvalidActionEnvDiscrete,
    InvalidActionEnvMultiBinary,
    InvalidActionEnvMultiDiscrete,
)
from proximo.errors import EnvWorkerError


class Clock(gym.Env):
    """At step t of its episode only action t % 4 is allowed; ``first`` shifts it."""

    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(4)

    def __init__(self, first=0, length=5):
        self.first, self.length, self.time = first, length, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_masks()[action], f"action {action} is forbidden at time {self.time}"
        self.time += 1
        return np.full(1, self.time, np.float32), 1.0, self.time >= self.length, False, {}

    def action_masks(self):
        return [(self.time + self.first) % 4 == action for action in range(4)]

    def with_environment(self, env):
        return [env.unwrapped is self] * 4

    def set_first(self, first):
        self.first = first


class OwnVectorEnv(VectorEnv):
    """Two clocks in one; masks in a method or in the infos."""

    def __init__(self, in_infos):
        self.num_envs, self.in_infos = 2, in_infos
        self.single_observation_space, self.single_action_space = Clock.observation_space, Clock.action_space
        self.observation_space, self.action_space = spaces.Box(0, 100, (2, 1), np.float32), spaces.MultiDiscrete([4, 4])
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.clocks = [Clock(0), Clock(1)]
        if not in_infos:
            self.action_masks = self._masks

    def _masks(self):
        # no action is allowed when an episode is over
        return np.array([clock.action_masks() if clock.time < 5 else [False] * 4 for clock in self.clocks])

    def _infos(self):
        return {"action_masks": self._masks()} if self.in_infos else {}

    def reset(self, *, seed=None, options=None):
        for clock in self.clocks:
            clock.reset()
        return np.zeros((2, 1), np.float32), self._infos()

    def step(self, actions):
        rows = [
            clock.reset() if clock.time >= 5 else clock.step(a) for clock, a in zip(self.clocks, actions, strict=True)
        ]
        observations = np.stack([row[0] for row in rows])
        ended = np.array([len(row) == 5 and row[2] for row in rows])
        return observations, np.ones(2), ended, np.zeros(2, bool), self._infos()


FACTORIES = [Clock, partial(Clock, 1)]
KINDS = {
    "in process": lambda: DummyVecEnv([lambda: Monitor(Clock()), FACTORIES[1]]),
    "workers": lambda: SubprocVecEnv(FACTORIES, start_method="fork", envs_per_worker=1),
    "one worker": lambda: SubprocVecEnv(FACTORIES, start_method="fork", envs_per_worker=2),
    "wrapped": lambda: VecNormalize(DummyVecEnv(FACTORIES), norm_obs=False, norm_reward=False),
    "gymnasium's loop": lambda: as_vec_env(SyncVectorEnv(FACTORIES)),
    "gymnasium's loop, same step": lambda: as_vec_env(SyncVectorEnv(FACTORIES, autoreset_mode=AutoresetMode.SAME_STEP)),
    "gymnasium's workers": lambda: as_vec_env(AsyncVectorEnv(FACTORIES)),
    "gymnasium's workers, wrapped": lambda: as_vec_env(
        gym.wrappers.vector.ClipReward(AsyncVectorEnv(FACTORIES), -10.0, 10.0)
    ),
    "vector env with a method": lambda: as_vec_env(OwnVectorEnv(in_infos=False)),
    "vector env with infos": lambda: as_vec_env(OwnVectorEnv(in_infos=True)),
    "Stable-Baselines3's": lambda: as_vec_env(ForeignDummyVecEnv(FACTORIES)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_masks_are_those_of_the_moment(kind):
    env = KINDS[kind]()
    assert env.has_attr("action_masks")
    assert is_masking_supported(env)
    env.reset()
    time, wait = 0, False
    for _ in range(14):
        masks = env.action_masks()
        assert (masks.dtype, masks.shape) == (np.bool_, (2, 4))
        if wait:  # the step that only resets ignores its action
            assert masks.all()
        else:
            np.testing.assert_array_equal(masks, [np.arange(4) == time % 4, np.arange(4) == (time + 1) % 4])
        np.testing.assert_array_equal(get_action_masks(env), masks)
        arrays = env.step_arrays(masks.argmax(axis=1))
        if wait:
            time, wait = 0, False
        else:
            time += 1
            if arrays.terminated.any():
                wait = env.resets_on_next_step
                time = time if wait else 0
    env.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda: DummyVecEnv([lambda: gym.make("CartPole-v1")]),
        lambda: SubprocVecEnv([lambda: gym.make("CartPole-v1")], start_method="fork"),
        lambda: as_vec_env(SyncVectorEnv([lambda: gym.make("CartPole-v1")])),
        lambda: as_vec_env(AsyncVectorEnv([lambda: gym.make("CartPole-v1")])),
        lambda: as_vec_env(gym.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point")),
        lambda: as_vec_env(ForeignDummyVecEnv([lambda: gym.make("CartPole-v1")])),
    ],
)
def test_environments_without_masks_say_so(make):
    env = make()
    assert not env.has_attr("action_masks")
    assert not is_masking_supported(env)
    env.reset()  # still alive
    env.close()
    with pytest.raises(ValueError, match=r"ActionMasker\(env, function\)"):
        MaskablePPO("MlpPolicy", "CartPole-v1").learn(1)


def test_looking_for_masks_in_infos_changes_no_seed():
    env = as_vec_env(OwnVectorEnv(in_infos=True))
    env.seed(5)
    assert env.has_attr("action_masks")
    assert env._seeds[0] == 5


class TestActionMasker:
    def test_function_of_the_environment(self):
        env = ActionMasker(Monitor(Clock(2)), lambda env: env.unwrapped.action_masks()[::-1])
        env.reset()
        assert env.action_masks() == [False, True, False, False]
        assert DummyVecEnv([lambda: env]).action_masks().tolist() == [[False, True, False, False]]
        assert get_action_masks(env).tolist() == [False, True, False, False]

    def test_name_of_a_method_under_wrappers(self):
        assert ActionMasker(Monitor(Clock()), "action_masks").action_masks() == [True, False, False, False]

    def test_method_that_wants_the_environment(self):
        assert ActionMasker(Clock(), "with_environment").action_masks() == [True] * 4

    def test_no_method(self):
        with pytest.raises(ValueError, match="'first' is 0, not a method"):
            ActionMasker(Clock(), "first")
        with pytest.raises(AttributeError, match="nothing"):
            ActionMasker(Clock(), "nothing")


@pytest.mark.parametrize("kind", ["in process", "workers"])
def test_what_changes_an_environment_changes_its_mask(kind):
    env = KINDS[kind]()
    env.reset()
    assert env.action_masks()[:, 3].tolist() == [False, False]
    env.env_method("set_first", 3, indices=[1])
    assert env.action_masks()[:, 3].tolist() == [False, True]
    env.set_attr("first", 3)
    assert env.action_masks()[1].tolist() == [False, False, False, True]
    env.reset()
    assert env.action_masks()[1].tolist() == [False, False, False, True]
    env.set_attr("action_masks", all_allowed)
    assert env.action_masks().all()
    env.close()


def all_allowed():
    return np.ones(4)


class BadMask(Clock):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def action_masks(self):
        if isinstance(self.mask, Exception):
            raise self.mask
        return self.mask


@pytest.mark.parametrize("mask", [np.ones(3), np.ones(1), np.ones((2, 3)), [True] * 5])
def test_wrong_length_names_the_environment(mask):
    env = DummyVecEnv([Clock, lambda: BadMask(mask)])
    env.reset()
    with pytest.raises(ValueError, match=r"mask of environment 1 has shape .*expected .*\(4,\).*Discrete\(4\)"):
        env.action_masks()


NO_MASKS = [None, True, 1.0, {"first": [True] * 4}, list("abcd"), [1.0, 0.0, 1.0, np.nan]]


@pytest.mark.parametrize("mask", NO_MASKS, ids=repr)
def test_what_is_no_mask_is_named(mask):
    expected = rf"mask of environment 1 is {re.escape(repr(mask))}, expected an array of shape \(4,\).*Discrete\(4\)"
    env = DummyVecEnv([Clock, lambda: BadMask(mask)])
    with pytest.raises(ValueError, match=expected):
        env.action_masks()
    with pytest.raises(ValueError, match=expected):
        as_vec_env(SyncVectorEnv([Clock, lambda: BadMask(mask)])).action_masks()
    workers = SubprocVecEnv([Clock, lambda: BadMask(mask)], start_method="fork", envs_per_worker=1)
    with pytest.raises(EnvWorkerError, match=expected):
        workers.action_masks()
    workers.close()


def test_foreign_vector_environments_name_the_environment_too():
    foreign = as_vec_env(ForeignDummyVecEnv([Clock, lambda: BadMask(np.ones(3))]))
    with pytest.raises(ValueError, match=r"mask of environment 1 has shape \(3,\), expected .*Discrete\(4\)"):
        foreign.action_masks()
    with pytest.raises(ValueError, match="mask of environment 1 has shape"):
        get_action_masks(foreign)


def test_masks_of_more_dimensions_are_flattened():
    env = DummyVecEnv([lambda: BadMask(np.eye(2, dtype=np.int8))])
    assert env.action_masks().tolist() == [[True, False, False, True]]


@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (4,), (1, 4, 1)])
@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, torch.as_tensor])
def test_masks_may_be_columns(form, shape):
    env = DummyVecEnv([lambda: BadMask(form(np.array([True, False, True, True]).reshape(shape)))])
    assert env.action_masks().tolist() == [[True, False, True, True]]


def test_errors_in_masks_name_the_environment():
    error = RuntimeError("no idea what is allowed")
    env = DummyVecEnv([Clock, lambda: BadMask(error)])
    with pytest.raises(RuntimeError) as caught:
        env.action_masks()
    assert caught.value.__notes__ == ["raised by environment 1"]
    workers = SubprocVecEnv([Clock, lambda: BadMask(error)], start_method="fork", envs_per_worker=1)
    with pytest.raises(EnvWorkerError, match=r"environment 1 failed.*no idea what is allowed"):
        workers.action_masks()
    workers.close()


def test_continuous_actions_have_no_masks():
    env = DummyVecEnv([lambda: ActionMasker(gym.make("Pendulum-v1"), lambda env: [True])])
    with pytest.raises(ValueError, match=r"need discrete choices.*Box"):
        env.action_masks()


def test_masks_of_a_step_under_way():
    env = KINDS["workers"]()
    env.reset()
    actions = env.action_masks().argmax(axis=1)
    env.step_async(actions)
    with pytest.raises(RuntimeError, match="step_wait"):
        env.action_masks()
    env.step_wait()
    env.close()


@pytest.mark.parametrize(
    "make",
    [
        partial(InvalidActionEnvDiscrete, 10, 20, 7),
        partial(InvalidActionEnvMultiDiscrete, [3, 4], 20, 4),
        partial(InvalidActionEnvMultiBinary, 4, 20, 3),
    ],
)
def test_masked_training_in_workers_equals_that_in_process(make):
    def trained(**options):
        env = make_vec_env(make, 3, seed=1, **options)
        model = MaskablePPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=2, seed=1).learn(200)
        env.close()
        return model

    here = trained()
    workers = trained(vec_env_cls=SubprocVecEnv, vec_env_kwargs={"start_method": "fork", "envs_per_worker": 2})
    np.testing.assert_array_equal(here.rollout_buffer.rollout.action_masks, workers.rollout_buffer.rollout.action_masks)
    for one, other in zip(here.policy.parameters(), workers.policy.parameters(), strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())


def test_hybrid_actions_reach_a_gymnasium_vector_env():
    class Hybrid(Clock):
        action_space = spaces.Dict(kind=spaces.Discrete(3), power=spaces.Tuple([spaces.Box(0, 1, (2,), np.float32)]))

        def step(self, action):
            assert self.action_space.contains(action)
            self.taken = action
            return np.zeros(1, np.float32), 0.0, False, False, {}

    env = as_vec_env(SyncVectorEnv([Hybrid, Hybrid]))
    env.reset()
    actions = [{"kind": np.int64(k), "power": (np.full(2, k / 2, np.float32),)} for k in (1, 2)]
    env.step(actions)
    taken = env.get_attr("taken")
    assert [action["kind"] for action in taken] == [1, 2]
    np.testing.assert_array_equal(taken[1]["power"][0], [1.0, 1.0])


def test_a_mask_that_is_no_method_is_named():
    class Attribute(Clock):
        action_masks = np.ones(4, bool)

    with pytest.raises(TypeError, match=r"action_masks of environment 1 is array.*expected a method"):
        DummyVecEnv([Clock, Attribute]).action_masks()


def test_masks_that_are_added_to_logits_are_refused():
    env = DummyVecEnv([lambda: BadMask(np.array([0.0, -1e9, 0.0, 0.0]))])
    with pytest.raises(ValueError, match=r"mask of environment 0 is .*expected an array .* true where an action"):
        env.action_masks()
