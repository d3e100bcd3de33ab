"""``VecNormalize(update_every="rollout")``: statistics that stand still until a rollout is over."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy
import stable_baselines3.common.vec_env as sb3
from counting_envs import CountingEnv, DictCountingEnv, RandomEnv

from proximo import PPO, evaluate
from proximo.envs import DummyVecEnv, VecFrameStack, VecNormalize, make_vec_env
from proximo.envs.vector import normalize as normalize_module
from proximo.envs.vector.normalize import normalizer_settings
from proximo.errors import ModelFileError
from proximo.files.archive import read_archive, write_archive
from proximo.files.budgets import Budgets
from proximo.files.encoding import encode
from proximo.training.callbacks import BaseCallback
from proximo.training.checkpoints import PeriodicCheckpoints

SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "seed": 0}


def numbers(env):
    return {name: value for name, value in env.state().items() if name != "returns"}


def assert_same(found, expected):
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def assert_moments(statistics, samples):
    """Of these samples, and the 0.0001 of variance 1 around 0 that statistics start with."""
    samples = np.array(samples, np.float64)
    count = len(samples) + 1e-4
    mean = samples.sum(axis=0) / count
    assert statistics.count == pytest.approx(count, rel=1e-15)
    np.testing.assert_allclose(statistics.mean, mean, rtol=1e-14)
    np.testing.assert_allclose(statistics.var, ((samples**2).sum(axis=0) + 1e-4) / count - mean**2, rtol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
def test_moments_of_a_small_rollout(compiled, monkeypatch):
    if compiled:
        import numba  # noqa: F401
    else:
        monkeypatch.setattr(normalize_module, "kernels_if_cheap", lambda: None)
    env = VecNormalize(
        DummyVecEnv([lambda: CountingEnv(3), lambda: CountingEnv(2)]), gamma=0.5, clip_obs=1e9, update_every="rollout"
    )
    env.reset()
    seen, returns = [0, 0], []
    assert_moments(env.obs_rms, [[value] * 2 for value in seen])  # the first reset counts at once
    for rollout, discounted in (
        ([[1, 1], [2, 100]], [1.0, 1.0, 2.5, 2.5]),
        ([[100, 101], [101, 200], [102, 201], [200, 300]], [4.25, 1.0, 1.0, 2.5, 2.5, 1.0, 4.25, 2.5]),
    ):
        before, mean, var = numbers(env), env.obs_rms.mean, env.obs_rms.var
        shown = [env.step_arrays([0, 0]).observations for _ in rollout]
        assert_same(numbers(env), before)
        expected = (np.array(rollout)[..., None] - mean) / np.sqrt(var + env.epsilon)
        np.testing.assert_allclose(shown, np.broadcast_to(expected, np.shape(shown)), rtol=1e-6)
        env.end_rollout()
        seen += np.array(rollout).reshape(-1).tolist()
        returns += discounted
        assert_moments(env.obs_rms, [[value] * 2 for value in seen])
        assert_moments(env.ret_rms, returns)
    after = numbers(env)
    env.end_rollout()  # nothing has been seen since
    assert_same(numbers(env), after)


def test_environments_are_merged_in_their_order_whatever_they_are_stepped_with():
    """The rows of one environment do not depend on those beside it, to the last bit."""

    def pending(rows):
        env = VecNormalize(DummyVecEnv([lambda: RandomEnv(3)] * 5), update_every="rollout")
        env.ret_rms.count = 10.0
        env.num_envs = len(range(5)[rows])
        generator, env.returns = np.random.default_rng(0), np.zeros(env.num_envs)
        for _ in range(50):
            observations, rewards = generator.normal(5.0, 3.0, (5, 3)).astype(np.float32), generator.normal(size=5)
            env._take_in_own(observations[rows], at_once=False)
            env._update_reward(rewards[rows])
        return env.own_state()["pending"]

    whole = pending(slice(0, 5))
    for rows in (slice(0, 3), slice(3, 5)):
        for name, parts in pending(rows).items():
            assert_same(parts, {kind: part[rows] for kind, part in whole[name].items()})
    assert whole["obs_rms"]["count"].tolist() == [50.0] * 5


def test_rows_that_are_no_step_or_not_finite():
    class Broken(CountingEnv):
        def _observe(self):
            return np.array([np.nan if self.step_count == 2 else 1.0, 3.0], np.float32)

    env = VecNormalize(DummyVecEnv([lambda: CountingEnv(9), lambda: Broken(9)]), gamma=0.5, update_every="rollout")
    env.ret_rms.count = 4.0
    env.reset()
    inner = env.venv.step_arrays
    env.transform(inner([0, 0]))
    env.transform(inner([0, 0])._replace(valid=np.array([False, True])))
    assert env.own_state()["pending"]["obs_rms"]["count"].tolist() == [3.0, 2.0]
    assert env.own_state()["pending"]["obs_rms"]["mean"].tolist() == [[1.0, 1.0], [1.0, 3.0]]
    assert env.own_state()["pending"]["ret_rms"]["count"].tolist() == [1.0, 2.0]
    assert env.own_state()["pending"]["ret_rms"]["mean"].tolist() == [1.0, (1.0 + 2.5) / 2]
    env.end_rollout()
    assert np.isfinite(env.obs_rms.var).all()
    assert env.ret_rms.count == 7.0


def test_dictionary_of_observations():
    env = VecNormalize(DummyVecEnv([DictCountingEnv, DictCountingEnv]), update_every="rollout")
    env.ret_rms.count = 4.0
    env.reset()
    env.step_arrays([0, 0])
    env.end_rollout()
    assert_moments(env.obs_rms["vector"], [[value] * 2 for value in (0, 0, 1, 1)])
    np.testing.assert_allclose(env.obs_rms["image"].mean[..., 1], 2 / 4.0001, rtol=1e-14)


def test_evaluation_takes_in_nothing():
    env = VecNormalize(DummyVecEnv([RandomEnv, RandomEnv]), update_every="rollout")
    env.reset()
    for _ in range(5):
        env.step_arrays(np.zeros((2, 2), np.float32))
    before, env.training = numbers(env), False
    env.reset()
    env.step_arrays(np.zeros((2, 2), np.float32))
    env.end_rollout()
    assert_same(numbers(env), before)
    env.training = True
    env.end_rollout()
    assert env.ret_rms.count == pytest.approx(10.0001)  # of the five steps


class Watcher(BaseCallback):
    """Reads the statistics at every step, and at the rollouts' ends."""

    def __init__(self):
        super().__init__()
        self.at_steps, self.at_ends = [], []

    def _on_step(self):
        self.at_steps.append(float(self.model.get_vec_normalize_env().obs_rms.count))
        return self.n_calls < 80

    def _on_rollout_end(self):
        self.at_ends.append(float(self.model.get_vec_normalize_env().obs_rms.count))


def test_training_takes_in_a_rollout_at_its_end():
    env = VecNormalize(make_vec_env("Pendulum-v1", 2, seed=0), update_every="rollout")
    watcher, frames = Watcher(), VecFrameStack(env, 2)  # found below other wrappers
    model = PPO("MlpPolicy", frames, **SMALL).learn(1000, callback=watcher)
    assert np.floor(watcher.at_ends).tolist() == [66.0, 130.0]
    assert set(np.floor(watcher.at_steps)) == {2.0, 66.0, 130.0}
    assert np.floor(env.obs_rms.count) == 162.0  # of the rollout too that the callback ended
    before = numbers(env)
    evaluate(model, frames, 1)
    assert_same(numbers(env), before)


def test_a_collection_of_the_users_own_is_taken_in_too():
    class Own(PPO):
        def collect_rollouts(self, env, callback, rollout_buffer, n_rollout_steps):
            for _ in range(n_rollout_steps):
                env.step(np.zeros((2, 1), np.float32))
            self.num_timesteps += 2 * n_rollout_steps
            return True

        def train(self):
            pass

    env = VecNormalize(make_vec_env("Pendulum-v1", 2, seed=0), update_every="rollout")
    Own("MlpPolicy", env, **SMALL).learn(128)
    assert np.floor(env.obs_rms.count) == 130.0


def test_resuming_is_exact(tmp_path):
    def env():
        return VecNormalize(make_vec_env("Pendulum-v1", 2, seed=1), update_every="rollout")

    straight = PPO("MlpPolicy", env(), **SMALL)
    straight.learn(320, callback=PeriodicCheckpoints(tmp_path, every_steps=64, keep_last=9))
    again = PPO.load(tmp_path / "model_192_steps.zip", env=env())
    again.resume()
    assert_same(again.env.state(), straight.env.state())
    for mine, other in zip(again.policy.parameters(), straight.policy.parameters(), strict=True):
        np.testing.assert_array_equal(mine.detach().numpy(), other.detach().numpy())


def test_a_state_taken_within_a_rollout_goes_on_exactly():
    def env():
        return VecNormalize(make_vec_env("Pendulum-v1", 2, seed=1), update_every="rollout")

    straight, again = env(), env()
    straight.reset()
    for _ in range(7):
        straight.step_arrays(np.ones((2, 1), np.float32))
    state = straight.get_state()
    again.reset()
    again.set_state(state)
    for each in (straight, again):
        each.step_arrays(np.ones((2, 1), np.float32))
        each.end_rollout()
    assert straight.ret_rms.count == pytest.approx(16.0001)
    assert_same(again.state(), straight.state())


def test_files_hold_it(tmp_path):
    def inner():
        return DummyVecEnv([RandomEnv])

    VecNormalize(inner(), update_every="rollout").save(tmp_path / "file")
    assert VecNormalize.load(tmp_path / "file", inner()).update_every == "rollout"

    def rewritten(change):
        data = (tmp_path / "file").read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        settings = json.loads(header["settings"])
        change(settings)
        arrays = safetensors.numpy.load(data)
        metadata = {**header, "settings": json.dumps(settings)}
        (tmp_path / "other").write_bytes(safetensors.numpy.save(arrays, metadata=metadata))
        return VecNormalize.load(tmp_path / "other", inner())

    assert rewritten(lambda settings: settings.pop("update_every")).update_every == "step"  # older files
    for value in ("epoch", ["step"], None):
        with pytest.raises(ModelFileError, match="its setting update_every is"):
            rewritten(lambda settings, value=value: settings.update(update_every=value))

    theirs = sb3.VecNormalize(sb3.DummyVecEnv([RandomEnv]))
    theirs.save(str(tmp_path / "sb3.pkl"))
    assert VecNormalize.load(tmp_path / "sb3.pkl", inner()).update_every == "step"
    assert normalizer_settings(theirs)["update_every"] == "step"


def test_model_files_tell_it(tmp_path):
    env = VecNormalize(make_vec_env("CartPole-v1", 2, seed=0), update_every="rollout")
    PPO("MlpPolicy", env, **SMALL).save(tmp_path / "model")
    assert PPO.load(tmp_path / "model").normalizer_settings()["update_every"] == "rollout"
    manifest, tensors = read_archive(tmp_path / "model", Budgets())
    manifest["normalizer"]["update_every"] = encode(np.zeros(2))
    write_archive(tmp_path / "hostile", manifest, tensors)
    with pytest.raises(ModelFileError, match="its setting update_every is a ndarray"):
        PPO.load(tmp_path / "hostile")


def test_a_wrong_choice_is_named():
    with pytest.raises(ValueError, match=r"update_every is 'epoch'; expected 'step' .* or 'rollout'"):
        VecNormalize(DummyVecEnv([RandomEnv]), update_every="epoch")
