from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3.common.vec_env as sb3
from counting_envs import CountingEnv, DictCountingEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from proximo.envs import (
    DummyVecEnv,
    Monitor,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
    arrays_from_step,
    as_vec_env,
    is_wrapped,
    make_vec_env,
)
from proximo.envs.adapters.foreign import ForeignVecEnvAdapter
from proximo.envs.adapters.gymnasium_vector import VectorEnvAdapter, info_of
from proximo.envs.testing.environments import FakeImageEnv
from proximo.envs.vector.vec_env import AUTORESET_KEY


def counting_vector(mode, lengths=(2, 3), truncate=False, env=CountingEnv):
    factories = [lambda length=length: env(length=length, truncate=truncate) for length in lengths]
    return SyncVectorEnv(factories, autoreset_mode=mode)


def first_column(observations):
    return np.asarray(observations)[:, 0].tolist()


class TestAutoresetModes:
    """Two environments with episodes of 2 and 3 steps; the columns are what each must give, step by step."""

    @pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
    @pytest.mark.parametrize("truncate", [False, True])
    @pytest.mark.parametrize("quick", [False, True])
    def test_reset_within_the_step(self, mode, truncate, quick):
        env = as_vec_env(counting_vector(mode, truncate=truncate))
        assert not env.resets_on_next_step
        assert env.reset().tolist() == [[0, 0], [0, 0]]
        expected = [  # observations, rewards, ended, last observations
            ([1, 1], [1, 1], [], {}),
            ([100, 2], [2, 2], [0], {0: 2}),
            ([101, 100], [1, 3], [1], {1: 3}),
            ([200, 101], [2, 1], [0], {0: 102}),
            ([201, 102], [1, 2], [], {}),
            ([300, 200], [2, 3], [0, 1], {0: 202, 1: 103}),
        ]
        for observations, rewards, ended, last in expected:
            actions = np.zeros(2, int)
            step = env.step_arrays(actions) if quick else arrays_from_step(*env.step(actions))
            assert first_column(step.observations) == observations
            assert step.rewards.tolist() == rewards
            assert step.rewards.dtype == np.float32
            flags, others = (step.truncated, step.terminated) if truncate else (step.terminated, step.truncated)
            assert np.flatnonzero(flags).tolist() == ended
            assert not others.any()
            assert {index: final[0] for index, final in step.final_observations.items()} == last
            assert step.valid is None
            for index in ended:
                length = (2, 3)[index]
                info = step.infos[index]
                assert (info["episode"]["r"], info["episode"]["l"]) == (sum(range(1, length + 1)), length)
                assert info["count"] == length  # of the step that ended, not of the reset
                assert info["TimeLimit.truncated"] == truncate
                assert "final_obs" not in info
        assert env.reset_infos == [{"opened": 3}, {"opened": 2}]

    @pytest.mark.parametrize("truncate", [False, True])
    @pytest.mark.parametrize("quick", [False, True])
    def test_reset_by_the_next_step(self, truncate, quick):
        env = as_vec_env(counting_vector(AutoresetMode.NEXT_STEP, truncate=truncate))
        assert env.resets_on_next_step
        env.reset()
        expected = [  # observations, rewards, ended, rows that are experience
            ([1, 1], [1, 1], [], None),
            ([2, 2], [2, 2], [0], None),
            ([100, 3], [0, 3], [1], [False, True]),
            ([101, 100], [1, 0], [], [True, False]),
            ([102, 101], [2, 1], [0], None),
            ([200, 102], [0, 2], [], [False, True]),
            ([201, 103], [1, 3], [1], None),
        ]
        for observations, rewards, ended, valid in expected:
            actions = np.zeros(2, int)
            step = env.step_arrays(actions) if quick else arrays_from_step(*env.step(actions))
            assert first_column(step.observations) == observations
            assert step.rewards.tolist() == rewards
            assert np.flatnonzero(step.terminated | step.truncated).tolist() == ended
            assert np.flatnonzero(step.truncated).tolist() == (ended if truncate else [])
            assert (step.valid if step.valid is None else step.valid.tolist()) == valid
            for index in ended:
                assert step.final_observations[index][0] == observations[index]
                length = (2, 3)[index]  # the row of the reset counts neither as length nor as reward
                episode = step.infos[index]["episode"]
                assert (episode["r"], episode["l"]) == (sum(range(1, length + 1)), length)
        assert env.reset_infos == [{"opened": 2}, {"opened": 1}]

    def test_a_reset_forgets_what_ended(self):
        env = as_vec_env(counting_vector(AutoresetMode.NEXT_STEP, lengths=(1,)))
        env.reset()
        assert env.step_arrays([0]).terminated.tolist() == [True]
        env.reset()
        step = env.step_arrays([0])
        assert step.valid is None
        assert step.infos[0]["episode"]["l"] == 1

    def test_final_observation_is_not_overwritten(self):
        vector_env = SyncVectorEnv([lambda: CountingEnv(1)], copy=False, autoreset_mode=AutoresetMode.NEXT_STEP)
        env = as_vec_env(vector_env)
        env.reset()
        final = env.step_arrays([0]).final_observations[0]
        env.step_arrays([0])
        np.testing.assert_array_equal(final, [1, 1])

    @pytest.mark.parametrize("mode", list(AutoresetMode))
    def test_dictionary_observations(self, mode):
        env = as_vec_env(counting_vector(mode, env=DictCountingEnv))
        assert isinstance(env, VecTransposeImage)
        env.reset()
        env.step_arrays([0, 0])
        step = env.step_arrays([0, 0])
        np.testing.assert_array_equal(step.final_observations[0]["vector"], [2, 2])
        np.testing.assert_array_equal(step.final_observations[0]["image"][:, 0, 0], [0, 2, 0])
        assert step.observations["image"].shape == (2, 3, 40, 36)

    def test_undeclared_mode_is_taken_as_next_step(self):
        vector_env = counting_vector(AutoresetMode.NEXT_STEP)
        del vector_env.metadata["autoreset_mode"]
        with pytest.warns(UserWarning, match="NEXT_STEP"):
            assert as_vec_env(vector_env).resets_on_next_step

    def test_mode_as_text(self):
        vector_env = counting_vector(AutoresetMode.SAME_STEP)
        vector_env.metadata["autoreset_mode"] = "SameStep"
        assert not as_vec_env(vector_env).resets_on_next_step


class TestWrappersOverNextStep:
    def test_frame_stack_starts_again_at_the_reset_row(self):
        env = VecFrameStack(as_vec_env(counting_vector(AutoresetMode.NEXT_STEP, lengths=(2,))), 2)
        env.reset()
        rows = [env.step_arrays([0]).observations[0, ::2].tolist() for _ in range(4)]
        assert rows == [[0, 1], [1, 2], [0, 100], [100, 101]]

    def test_monitor_skips_the_reset_row(self):
        env = VecMonitor(as_vec_env(counting_vector(AutoresetMode.NEXT_STEP, lengths=(2,))))
        env.reset()
        infos = [env.step([0])[3][0] for _ in range(5)]
        assert [info["episode"]["l"] for info in infos if "episode" in info] == [2, 2]
        assert [AUTORESET_KEY in info for info in infos] == [False, False, True, False, False]

    def test_normalisation_takes_no_return_from_the_reset_row(self):
        env = VecNormalize(as_vec_env(counting_vector(AutoresetMode.NEXT_STEP, lengths=(2,))), gamma=0.5)
        env.reset()
        for _ in range(3):
            step = env.step_arrays([0])
        assert step.valid.tolist() == [False]
        assert env.ret_rms.count == pytest.approx(2.0001)
        assert float(env.ret_rms.mean) == pytest.approx((1 + 2.5) / 2, rel=1e-3)
        assert env.obs_rms.count == pytest.approx(4.0001)


class TestVectorEnvs:
    def test_vectorised_cartpole(self):
        env = as_vec_env(gym.make_vec("CartPole-v1", num_envs=8, vectorization_mode="vector_entry_point"))
        env.seed(0)
        first = env.reset()
        env.seed(0)
        np.testing.assert_array_equal(first, env.reset())
        lengths, valid_rows, steps = [], 0, 60
        for _ in range(steps):
            step = env.step_arrays(np.zeros(8, np.int64))
            lengths += [info["episode"]["l"] for info in step.infos.values()]
            valid_rows += 8 if step.valid is None else int(step.valid.sum())
        assert all(8 <= length <= 11 for length in lengths)
        assert valid_rows < 8 * steps

    def test_seeds_give_what_the_sync_vector_env_gives(self):
        def make():
            return gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")

        env = as_vec_env(make())
        env.seed(5)
        np.testing.assert_array_equal(env.reset(), make().reset(seed=5)[0])
        inside = make_vec_env("CartPole-v1", 3, seed=5)
        env.seed(5)
        np.testing.assert_array_equal(env.reset(), inside.reset())

    def test_statistics_of_others_are_kept(self):
        for mode in AutoresetMode:
            env = as_vec_env(RecordEpisodeStatistics(counting_vector(mode, lengths=(2, 9))))
            env.reset()
            env.step_arrays([0, 0])
            episode = env.step_arrays([0, 0]).infos[0]["episode"]
            assert (float(episode["r"]), int(episode["l"])) == (3.0, 2), mode
            assert isinstance(episode["r"], np.floating)  # theirs, not ours
            monitored = as_vec_env(counting_vector(mode, env=lambda **kwargs: Monitor(CountingEnv(**kwargs))))
            monitored.reset()
            monitored.step_arrays([0, 0])
            assert monitored.step_arrays([0, 0]).infos[0]["episode"]["l"] == 2

    def test_async_vector_env(self):
        factories = [lambda: CountingEnv(2), lambda: CountingEnv(3)]
        env = as_vec_env(gym.vector.AsyncVectorEnv(factories, context="fork", autoreset_mode=AutoresetMode.SAME_STEP))
        env.reset()
        env.step_arrays([0, 0])
        step = env.step_arrays([0, 0])
        assert first_column(step.observations) == [100, 2]
        np.testing.assert_array_equal(step.final_observations[0], [2, 2])
        assert env.get_attr("length") == [2, 3]
        assert env.get_attr("length", 1) == [3]
        assert env.env_method("double", 1) == [4, 5]
        env.set_attr("length", 7, indices=0)
        assert env.get_attr("length") == [7, 3]
        with pytest.raises(NotImplementedError, match="all of its environments"):
            env.env_method("double", 1, indices=[0])
        assert env.env_is_wrapped(Monitor) == [False, False]
        env.close()

    def test_access_to_single_environments(self):
        env = as_vec_env(counting_vector(AutoresetMode.NEXT_STEP))
        assert env.get_attr("length") == [2, 3]
        assert env.env_method("double", 1, indices=1) == [5]
        env.set_attr("length", 4, indices=[1])
        assert env.get_attr("length") == [2, 4]
        env.set_options({"level": 3})
        env.reset()
        assert env.get_attr("reset_calls")[0][-1] == (None, {"level": 3})
        env.set_options([{"level": 1}, {}])
        with pytest.raises(ValueError, match="same reset options"):
            env.reset()

    def test_box_actions_are_brought_to_shape(self):
        env = as_vec_env(gym.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="sync"))
        env.reset()
        step = env.step_arrays(np.zeros(2, np.float64))
        assert step.observations.shape == (2, 3)
        assert step.rewards.dtype == np.float32


class TestEnvPool:
    def make(self, **kwargs):
        envpool = pytest.importorskip("envpool")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return envpool.make("CartPole-v1", **{"env_type": "gymnasium", "num_envs": 3, "seed": 1, **kwargs})

    def test_bogus_rows_are_marked_and_not_counted(self):
        pool = self.make()
        env = as_vec_env(pool)
        assert isinstance(env, VectorEnvAdapter)
        assert env.observation_space.shape == (4,)
        env.reset()
        elapsed = np.zeros(3, int)
        ends = 0
        for _ in range(40):
            step = env.step_arrays(np.zeros(3, int))
            valid = np.ones(3, bool) if step.valid is None else step.valid
            assert (step.rewards == valid).all()  # CartPole pays 1 for each real step
            elapsed = np.where(valid, elapsed + 1, 0)
            for index, info in step.infos.items():
                assert info["elapsed_step"] == info["episode"]["l"] == elapsed[index]
                assert abs(step.final_observations[index][2]) > 0.2  # the pole has fallen
                ends += 1
        assert ends >= 9

    def test_seeds_belong_to_its_making(self):
        env = as_vec_env(self.make())
        with pytest.warns(UserWarning, match="seeded when it is made"):
            env.seed(3)
        env.reset()

    def test_the_seed_of_its_making_is_no_surprise(self, recwarn):
        as_vec_env(self.make(seed=3)).seed(3)
        assert not [warning for warning in recwarn if "seeded" in str(warning.message)]

    def test_other_flavours_are_refused(self):
        with pytest.raises(TypeError, match="env_type='gymnasium'"):
            as_vec_env(self.make(env_type="dm"))
        with pytest.raises(TypeError, match="batch_size"):
            as_vec_env(self.make(batch_size=2))


class TestStableBaselines3:
    def test_steps_pass_through_and_ends_are_split(self):
        inner = sb3.DummyVecEnv([lambda: CountingEnv(2), lambda: CountingEnv(3, truncate=True)])
        env = as_vec_env(inner)
        assert isinstance(env, ForeignVecEnvAdapter)
        assert env.reset().tolist() == [[0, 0], [0, 0]]
        env.step_arrays(np.zeros(2, int))
        step = env.step_arrays(np.zeros(2, int))
        assert (step.terminated.tolist(), step.truncated.tolist()) == ([True, False], [False, False])
        assert (step.infos[0]["episode"]["r"], step.infos[0]["episode"]["l"]) == (3.0, 2)
        step = env.step_arrays(np.zeros(2, int))
        assert (step.terminated.tolist(), step.truncated.tolist()) == ([False, False], [False, True])
        np.testing.assert_array_equal(step.final_observations[1], [3, 3])
        assert env.reset_infos == [{"opened": 1}, {"opened": 1}]
        assert env.get_attr("length") == [2, 3]
        assert env.env_method("double", 1, indices=1) == [5]

    def test_its_monitor_and_wrappers_are_kept(self):
        from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env

        inner = sb3.VecNormalize(sb3_make_vec_env(lambda: CountingEnv(2), n_envs=2))
        env = as_vec_env(inner)
        env.reset()
        env.step_arrays(np.zeros(2, int))
        step = env.step_arrays(np.zeros(2, int))
        assert step.infos[0]["episode"]["r"] == 3.0  # the monitor's, not the normalised
        assert step.rewards[0] != 2.0
        assert step.final_observations[0].dtype == np.float32
        assert env.obs_rms is inner.obs_rms
        assert env.has_attr("length")
        assert not env.has_attr("nonsense")

    def test_its_single_environment_is_not_monitored_twice(self):
        from stable_baselines3.common.monitor import Monitor as Sb3Monitor

        monitored = Sb3Monitor(CountingEnv(2))
        env = as_vec_env(monitored)
        assert env.envs[0] is monitored
        assert env.env_is_wrapped(Monitor) == [True]


class TestAsVecEnv:
    def test_id(self):
        env = as_vec_env("CartPole-v1")
        assert isinstance(env, DummyVecEnv)
        assert env.render_mode == "rgb_array"
        assert env.env_is_wrapped(Monitor) == [True]

    def test_environment(self, capsys):
        env = as_vec_env(CountingEnv(), verbose=1)
        assert env.env_is_wrapped(Monitor) == [True]
        assert "Monitor" in capsys.readouterr().out
        assert as_vec_env(CountingEnv(), monitor=False).env_is_wrapped(Monitor) == [False]
        once = Monitor(CountingEnv())
        assert as_vec_env(once).envs[0] is once

    def test_factories(self):
        env = as_vec_env([CountingEnv, lambda: Monitor(CountingEnv(7))])
        assert env.num_envs == 2
        assert all(is_wrapped(single, Monitor) for single in env.envs)
        assert not isinstance(env.envs[1].env, Monitor)

    def test_vec_env_as_it_is(self):
        inner = DummyVecEnv([CountingEnv])
        assert as_vec_env(inner) is inner

    def test_images_are_transposed_once(self):
        env = as_vec_env(FakeImageEnv())
        assert isinstance(env, VecTransposeImage)
        assert env.observation_space.shape == (1, 84, 84)
        assert as_vec_env(env) is env
        first = FakeImageEnv(channel_first=True)
        assert isinstance(as_vec_env(first), DummyVecEnv)
        assert as_vec_env(DictCountingEnv()).observation_space["image"].shape == (3, 40, 36)
        kept = VecTransposeImage(DummyVecEnv([FakeImageEnv]), skip=True)
        assert as_vec_env(kept) is kept

    @pytest.mark.parametrize("thing", [3, None, CountingEnv, [], [3], {"env": 1}])
    def test_anything_else_is_refused(self, thing):
        with pytest.raises(TypeError, match="expected an environment id"):
            as_vec_env(thing)

    def test_old_gym(self):
        old_env = type(
            "Env", (), {"step": lambda self, action: None, "reset": lambda self: None, "__module__": "gym.core"}
        )
        mine = type("MyEnv", (old_env,), {"__module__": "my_project"})
        with pytest.raises(TypeError, match="old gym package; port it to gymnasium"):
            as_vec_env(mine())

    def test_unported_class(self):
        class Duck:
            def step(self, action): ...
            def reset(self): ...

        with pytest.raises(TypeError, match=r"derive the class from gymnasium\.Env"):
            as_vec_env(Duck())


def test_info_of_masks_and_nesting():
    infos = {
        "score": np.array([1.0, 0.0]),
        "_score": np.array([True, False]),
        "deep": {"name": np.array(["a", None], object), "_name": np.array([True, False])},
        "_deep": np.array([True, False]),
        "same": "for all",
    }
    assert info_of(infos, 0) == {"score": 1.0, "deep": {"name": "a"}, "same": "for all"}
    assert info_of(infos, 1) == {"same": "for all"}
