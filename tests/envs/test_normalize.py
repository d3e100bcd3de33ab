from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
import stable_baselines3.common.vec_env as sb3
from counting_envs import CountingEnv, DictCountingEnv, RandomEnv
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from proximo.envs import DummyVecEnv, VecFrameStack, VecNormalize, sync_envs_normalization, unwrap_vec_normalize
from proximo.envs.testing.environments import IdentityEnv
from proximo.envs.vector import normalize as normalize_module
from proximo.envs.vector.normalize import update_statistics
from proximo.errors import ModelFileError
from proximo.functional.statistics import RunningMeanStd


@pytest.fixture(params=["numpy", "compiled"])
def way(request, monkeypatch):
    """Both ways to compute: they must agree with Stable-Baselines3 and so with each other."""
    if request.param == "numpy":
        monkeypatch.setattr(normalize_module, "kernels_if_cheap", lambda: None)
    else:
        import numba  # noqa: F401

        assert "numba" in sys.modules
    return request.param


def random_pair(envs, size, dtype=np.float32, **settings):
    factories = [lambda: RandomEnv(size, dtype)] * envs
    ours, theirs = (
        VecNormalize(DummyVecEnv(factories), **settings),
        sb3.VecNormalize(sb3.DummyVecEnv(factories), **settings),
    )
    ours.seed(3), theirs.seed(3)
    return ours, theirs


@pytest.mark.parametrize(
    ("envs", "size", "dtype"), [(1, 4, "f4"), (3, 1, "f4"), (12, 1, "f4"), (9, 17, "f4"), (5, 3, "f8")]
)
def test_statistics_and_outcomes_equal_stable_baselines3(way, envs, size, dtype):
    ours, theirs = random_pair(envs, size, np.dtype(dtype).type, gamma=0.97, clip_obs=2.0, clip_reward=1.5)
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    generator = np.random.default_rng(1)
    for number in range(300):
        actions = generator.normal(size=(envs, 2)).astype(np.float32)
        expected = theirs.step(actions)
        if number % 2:
            observations, rewards, dones, infos = ours.step(actions)
            finals = {index: infos[index]["terminal_observation"] for index in np.flatnonzero(dones)}
        else:
            step = ours.step_arrays(actions)
            observations, rewards, dones = step.observations, step.rewards, step.terminated | step.truncated
            finals = step.final_observations
        np.testing.assert_allclose(observations, expected[0], rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(rewards, expected[1], rtol=1e-6)
        np.testing.assert_array_equal(dones, expected[2])
        assert observations.dtype == rewards.dtype == np.float32
        for index, final in finals.items():
            np.testing.assert_allclose(final, expected[3][index]["terminal_observation"], rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(ours.returns, theirs.returns, rtol=1e-12)
    for mine, other in ((ours.obs_rms, theirs.obs_rms), (ours.ret_rms, theirs.ret_rms)):
        np.testing.assert_allclose(mine.mean, other.mean, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(mine.var, other.var, rtol=1e-12)
        assert mine.count == pytest.approx(other.count, rel=1e-15)
    np.testing.assert_array_equal(ours.get_original_obs(), theirs.get_original_obs())
    np.testing.assert_array_equal(ours.get_original_reward(), theirs.get_original_reward())
    shown = ours.normalize_obs(ours.get_original_obs()[0])
    np.testing.assert_allclose(shown, theirs.normalize_obs(theirs.get_original_obs()[0]), rtol=1e-6)
    rewards = np.array([0.3, -0.2], np.float32)
    np.testing.assert_allclose(ours.unnormalize_reward(rewards), theirs.unnormalize_reward(rewards), rtol=1e-6)
    np.testing.assert_allclose(ours.unnormalize_obs(shown), theirs.unnormalize_obs(shown), rtol=1e-6)


def test_image_statistics_equal_stable_baselines3(way):
    def factories():
        return [lambda: DictCountingEnv(length=4)] * 3

    ours = VecNormalize(DummyVecEnv(factories()), norm_obs_keys=["image"])
    theirs = sb3.VecNormalize(sb3.DummyVecEnv(factories()), norm_obs_keys=["image"])
    ours.reset(), theirs.reset()
    for _ in range(9):
        step, expected = ours.step_arrays([0, 1, 2]), theirs.step(np.array([0, 1, 2]))
        for key in ("vector", "image"):
            np.testing.assert_allclose(step.observations[key], expected[0][key], rtol=1e-6)
    np.testing.assert_allclose(ours.obs_rms["image"].var, theirs.obs_rms["image"].var, rtol=1e-12)
    assert ours.observation_space["image"] == spaces.Box(-10, 10, (40, 36, 3), np.float32)
    assert ours.venv.observation_space["image"].dtype == np.uint8


@given(st.integers(1, 40), st.integers(0, 5), st.sampled_from(["f4", "f8", "u1", "i8"]), st.integers(0, 2**32 - 1))
def test_quick_update_is_the_plain_update_to_the_last_bit(envs, size, dtype, seed):
    generator = np.random.default_rng(seed)
    shape = (size,) if size else ()
    plain, quick = RunningMeanStd(shape=shape), RunningMeanStd(shape=shape)
    for _ in range(3):
        batch = (generator.normal(size=(envs, *shape)) * 50 + 100).astype(dtype)
        plain.update(batch)
        update_statistics(quick, batch)
    np.testing.assert_array_equal(plain.mean, quick.mean)
    np.testing.assert_array_equal(plain.var, quick.var)
    assert plain.count == quick.count


def test_evaluation_leaves_statistics_alone(way):
    env, _ = random_pair(2, 3)
    env.reset()
    before = env.state()
    env.training = False
    env.step(np.zeros((2, 2), np.float32))
    env.reset()
    for name, value in env.state().items():
        np.testing.assert_array_equal(value, before[name])
    env.norm_obs = env.norm_reward = False
    observations, rewards, _, _ = env.step(np.zeros((2, 2), np.float32))
    np.testing.assert_array_equal(observations, env.get_original_obs())
    np.testing.assert_array_equal(rewards, env.get_original_reward())


def test_a_subclass_may_normalise_otherwise(way):
    class Halved(VecNormalize):
        def normalize_obs(self, obs):
            return obs / 2

        def _update_reward(self, reward):
            self.seen = reward.copy()

    env = Halved(DummyVecEnv([CountingEnv]), norm_reward=False)
    env.reset()
    np.testing.assert_array_equal(env.step_arrays([0]).observations, [[0.5, 0.5]])
    assert env.seen.tolist() == [1.0]
    assert env.obs_rms.count == pytest.approx(2.0001)


def test_nan_passes_through_instead_of_being_clipped(way):
    class Broken(CountingEnv):
        def _observe(self):
            return np.array([np.nan if self.step_count else 0.0, 1e9], np.float32)

    env = VecNormalize(DummyVecEnv([Broken]), training=False)
    env.reset()
    observations = env.step_arrays([0]).observations
    assert np.isnan(observations[0, 0])
    assert observations[0, 1] == 10.0


def test_save_and_load(tmp_path):
    env, _ = random_pair(2, 3, gamma=0.9, clip_obs=5.0, epsilon=1e-6)
    env.reset()
    for _ in range(20):
        env.step(np.ones((2, 2), np.float32))
    path = tmp_path / "normalize.pkl"  # the name that scripts use; nothing in it is pickled
    env.save(path)
    env.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["normalize.pkl"]
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(path.read_bytes())

    loaded = VecNormalize.load(path, DummyVecEnv([RandomEnv, RandomEnv]))
    assert loaded.settings() == env.settings()
    for name, value in env.state().items():
        np.testing.assert_array_equal(loaded.state()[name], value)
    single = VecNormalize.load(str(path), DummyVecEnv([RandomEnv]))
    assert single.returns.tolist() == [0.0]  # the running returns are of two environments
    np.testing.assert_array_equal(single.obs_rms.mean, env.obs_rms.mean)


def test_save_and_load_dictionary(tmp_path):
    env = VecNormalize(DummyVecEnv([DictCountingEnv]), norm_obs_keys=["vector"])
    env.reset()
    env.step([0])
    env.save(tmp_path / "file")
    loaded = VecNormalize.load(tmp_path / "file", DummyVecEnv([DictCountingEnv]))
    assert loaded.norm_obs_keys == ["vector"]
    np.testing.assert_allclose(loaded.obs_rms["vector"].mean, [1 / 2.0001] * 2, rtol=1e-15)


def test_their_pickles_are_read_without_unpickling(tmp_path, monkeypatch):
    env, theirs = random_pair(1, 3)
    theirs.clip_obs, theirs.gamma = 3.5, 0.9
    theirs.save(str(tmp_path / "sb3.pkl"))
    monkeypatch.setattr(pickle, "loads", None)
    monkeypatch.setattr(pickle, "load", None)
    monkeypatch.setattr(pickle, "Unpickler", None)
    loaded = VecNormalize.load(tmp_path / "sb3.pkl", env.venv)
    np.testing.assert_array_equal(loaded.obs_rms.mean, theirs.obs_rms.mean)
    np.testing.assert_array_equal(loaded.obs_rms.var, theirs.obs_rms.var)
    assert (loaded.obs_rms.count, loaded.clip_obs, loaded.gamma) == (theirs.obs_rms.count, 3.5, 0.9)
    assert float(loaded.ret_rms.var) == float(theirs.ret_rms.var)
    observations = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_array_equal(loaded.normalize_obs(observations), theirs.normalize_obs(observations))


def test_bad_files(tmp_path):
    env, theirs = random_pair(1, 3)
    (tmp_path / "other.pkl").write_bytes(pickle.dumps({"mean": theirs.obs_rms.mean}))
    with pytest.raises(ModelFileError, match="a pickle of something else"):
        VecNormalize.load(tmp_path / "other.pkl", env.venv)
    env.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    (tmp_path / "short").write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelFileError, match="damaged"):
        VecNormalize.load(tmp_path / "short", env.venv)
    (tmp_path / "text").write_text("hello there, this is no file of ours")
    with pytest.raises(ModelFileError):
        VecNormalize.load(tmp_path / "text", env.venv)
    with pytest.raises(ValueError, match=r"shape \(3,\), this VecNormalize's observations have \(2,\)"):
        VecNormalize.load(tmp_path / "good", DummyVecEnv([CountingEnv]))
    with pytest.raises(FileNotFoundError):
        VecNormalize.load(tmp_path / "absent", env.venv)


def test_pickle_leaves_the_environments_out():
    env, _ = random_pair(2, 3)
    env.reset()
    restored = pickle.loads(pickle.dumps(env))
    restored.set_venv(DummyVecEnv([RandomEnv]))
    np.testing.assert_array_equal(restored.obs_rms.mean, env.obs_rms.mean)
    assert restored.reset().shape == (1, 3)
    with pytest.raises(ValueError, match="already wraps"):
        restored.set_venv(env.venv)


def test_sync_copies_statistics():
    train, _ = random_pair(2, 3)
    evaluation, _ = random_pair(1, 3)
    train.reset()
    outer_train, outer_evaluation = VecFrameStack(train, 2), VecFrameStack(evaluation, 2)
    sync_envs_normalization(outer_train, outer_evaluation)
    np.testing.assert_array_equal(evaluation.obs_rms.mean, train.obs_rms.mean)
    train.reset()
    assert evaluation.obs_rms.count != train.obs_rms.count
    assert unwrap_vec_normalize(outer_train) is train
    assert unwrap_vec_normalize(train.venv) is None
    with pytest.raises(ValueError, match="wrap both the same way"):
        sync_envs_normalization(outer_train, evaluation)


def test_unsuitable_spaces():
    with pytest.raises(ValueError, match="set norm_obs=False"):
        VecNormalize(DummyVecEnv([lambda: IdentityEnv(3)]))
    VecNormalize(DummyVecEnv([lambda: IdentityEnv(3)]), norm_obs=False)
    with pytest.raises(ValueError, match="did you mean 'vector'"):
        VecNormalize(DummyVecEnv([DictCountingEnv]), norm_obs_keys=["vectr"])
    with pytest.raises(ValueError, match="needs a Dict"):
        VecNormalize(DummyVecEnv([CountingEnv]), norm_obs_keys=["vector"])


def test_observations_of_one_number_and_whole_settings(way):
    class Scalar(CountingEnv):
        def __init__(self):
            super().__init__(2)
            self.observation_space = spaces.Box(-1e6, 1e6, (), np.float32)

        def _observe(self):
            return super()._observe()[0]

    env = VecNormalize(DummyVecEnv([Scalar, Scalar]), clip_obs=10, clip_reward=1, gamma=1)
    env.reset()
    env.step_arrays([0, 0])
    step = env.step_arrays([0, 0])
    assert step.observations.shape == (2,)
    assert step.final_observations[0].shape == ()
    assert step.rewards.tolist() == [1.0, 1.0]  # clipped
    whole = VecNormalize(DummyVecEnv([CountingEnv]), clip_obs=10, epsilon=1)
    whole.reset()
    whole.step_arrays([0])


def test_statistics_may_be_given_in_single_precision(way):
    ours, theirs = random_pair(3, 4)
    for env in (ours, theirs):
        env.obs_rms.mean, env.obs_rms.var = np.full(4, 0.5, np.float32), np.full(4, 4.0, np.float32)
    np.testing.assert_allclose(ours.reset(), theirs.reset(), rtol=1e-5)
