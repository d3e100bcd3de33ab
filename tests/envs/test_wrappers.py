from __future__ import annotations

import json

import numpy as np
import pytest
import stable_baselines3.common.vec_env as sb3
from counting_envs import CountingEnv, DictCountingEnv, RandomEnv
from gymnasium import spaces
from stable_baselines3.common.envs import FakeImageEnv as Sb3FakeImageEnv

from proximo.envs import (
    DummyVecEnv,
    LoadMonitorResultsError,
    Monitor,
    StackedObservations,
    VecCheckNan,
    VecExtractDictObs,
    VecFrameStack,
    VecMonitor,
    VecTransposeImage,
    VecVideoRecorder,
    get_monitor_files,
    load_results,
    make_vec_env,
    write_video,
)
from proximo.envs.testing.environments import FakeImageEnv, IdentityEnv
from proximo.errors import NonFiniteError


def factories(count=2, **kwargs):
    return [lambda: CountingEnv(**kwargs)] * count


class TestFrameStack:
    def test_hand_counted_stacks(self):
        env = VecFrameStack(DummyVecEnv(factories(1, length=3)), 3)
        np.testing.assert_array_equal(env.reset(), [[0, 0, 0, 0, 0, 0]])
        shown = [env.step_arrays([0]) for _ in range(4)]
        env.reset()  # does not disturb what `step` gave; arrays of `step_arrays` may be overwritten
        np.testing.assert_array_equal(shown[2].final_observations[0], [1, 1, 2, 2, 3, 3])
        rows = []
        for _ in range(4):
            rows.append(env.step([0])[0][0].tolist())
        assert rows == [
            [0, 0, 200, 200, 201, 201],
            [200, 200, 201, 201, 202, 202],
            [0, 0, 0, 0, 300, 300],
            [0, 0, 300, 300, 301, 301],
        ]

    @pytest.mark.parametrize("channel_first", [False, True])
    @pytest.mark.parametrize("order", [None, "first", "last"])
    def test_images_as_stable_baselines3(self, channel_first, order):
        def make(cls):
            return lambda: cls(screen_height=36, screen_width=40, n_channels=3, channel_first=channel_first)

        ours = VecFrameStack(DummyVecEnv([make(FakeImageEnv)] * 2), 4, channels_order=order)
        theirs = sb3.VecFrameStack(sb3.DummyVecEnv([make(Sb3FakeImageEnv)] * 2), 4, channels_order=order)
        for env in (ours, theirs):
            for index, space in enumerate(env.get_attr("observation_space")):
                space.seed(index)
        assert ours.observation_space == theirs.observation_space
        np.testing.assert_array_equal(ours.reset(), theirs.reset())
        for _ in range(12):
            mine, other = ours.step(np.zeros(2, int)), theirs.step(np.zeros(2, int))
            np.testing.assert_array_equal(mine[0], other[0])
            for index in np.flatnonzero(mine[2]):
                final, expected = (step[3][index]["terminal_observation"] for step in (mine, other))
                np.testing.assert_array_equal(final, expected)

    def test_dictionary_as_stable_baselines3(self):
        def make():
            return DictCountingEnv(length=3)

        order = {"vector": "last", "image": "first"}
        ours = VecFrameStack(DummyVecEnv([make] * 2), 2, channels_order=order)
        theirs = sb3.VecFrameStack(sb3.DummyVecEnv([make] * 2), 2, channels_order=order)
        assert ours.observation_space == theirs.observation_space
        np.testing.assert_equal(dict(ours.reset()), dict(theirs.reset()))
        for _ in range(7):
            mine, other = ours.step([0, 0]), theirs.step([0, 0])
            np.testing.assert_equal(dict(mine[0]), dict(other[0]))
            np.testing.assert_equal(mine[3], other[3])

    def test_transposed_stack_is_contiguous(self):
        env = VecTransposeImage(VecFrameStack(DummyVecEnv([FakeImageEnv] * 2), 4))
        env.reset()
        observations = env.step_arrays([0, 0]).observations
        assert observations.shape == (2, 4, 84, 84)
        assert observations.flags.c_contiguous

    def test_wrong_arguments(self):
        with pytest.raises(TypeError, match="only Box"):
            VecFrameStack(DummyVecEnv([lambda: IdentityEnv(3)]), 2)
        with pytest.raises(ValueError, match="'middle'"):
            VecFrameStack(DummyVecEnv(factories()), 2, channels_order="middle")
        with pytest.raises(TypeError, match="dictionary"):
            VecFrameStack(DummyVecEnv(factories()), 2, channels_order={"a": "last"})
        with pytest.raises(TypeError, match=r"single number cannot be stacked.*key 'a'.*\(1,\)"):
            StackedObservations(1, 2, spaces.Dict(a=spaces.Box(-9, 9, ())))

    def test_stacked_observations_alone(self):
        stack = StackedObservations(1, 2, spaces.Box(-9, 9, (1,)))
        np.testing.assert_array_equal(stack.reset(np.array([[5.0]])), [[0, 5]])
        infos = [{"terminal_observation": np.array([6.0])}]
        shown, infos = stack.update(np.array([[7.0]]), np.array([True]), infos)
        np.testing.assert_array_equal(shown, [[0, 7]])
        np.testing.assert_array_equal(infos[0]["terminal_observation"], [5, 6])


class TestTranspose:
    def test_image(self):
        env = VecTransposeImage(DummyVecEnv([lambda: FakeImageEnv(screen_height=40, screen_width=36, n_channels=3)]))
        assert env.observation_space.shape == (3, 40, 36)
        first = env.reset()
        assert first.shape == (1, 3, 40, 36)
        for _ in range(10):
            step = env.step_arrays([0])
        assert step.final_observations[0].shape == (3, 40, 36)
        assert step.infos[0]["terminal_observation"].shape == (3, 40, 36)

    def test_dictionary_values(self):
        env = VecTransposeImage(DummyVecEnv([lambda: DictCountingEnv(length=2)]))
        assert env.observation_space["image"].shape == (3, 40, 36)
        env.reset()
        step = env.step_arrays([0])
        np.testing.assert_array_equal(step.observations["image"][0, :, 0, 0], [0, 1, 0])
        np.testing.assert_array_equal(step.observations["vector"], [[1, 1]])
        final = env.step([0])[3][0]["terminal_observation"]
        np.testing.assert_array_equal(final["image"][:, 5, 5], [0, 2, 0])

    def test_skip_and_unsuitable(self):
        env = VecTransposeImage(DummyVecEnv([FakeImageEnv]), skip=True)
        assert env.reset().shape == (1, 84, 84, 1)
        with pytest.raises(ValueError, match="image observations"):
            VecTransposeImage(DummyVecEnv(factories()))
        with pytest.raises(ValueError, match="channels-last"):
            VecTransposeImage(DummyVecEnv([lambda: FakeImageEnv(channel_first=True)]))


class TestMonitor:
    def test_file_reads_the_same_in_stable_baselines3(self, tmp_path):
        from stable_baselines3.common.monitor import load_results as sb3_load_results

        env = make_vec_env(
            lambda: CountingEnv(3), 2, monitor_dir=tmp_path, monitor_kwargs={"info_keywords": ("count",)}
        )
        env.reset()
        for _ in range(7):
            env.step([0, 0])
        env.close()
        lines = (tmp_path / "0.monitor.csv").read_text().splitlines()
        assert json.loads(lines[0][1:])["env_id"] == "None"
        assert lines[1] == "r,l,t,count"
        assert [line.split(",")[:2] + line.split(",")[3:] for line in lines[2:]] == [["6.0", "3", "3"]] * 2
        ours, theirs = load_results(tmp_path), sb3_load_results(str(tmp_path))
        assert ours.r.tolist() == [6.0] * 4
        assert sorted(ours.columns) == sorted(theirs.columns)
        np.testing.assert_allclose(sorted(ours.t), sorted(theirs.t))
        assert len(get_monitor_files(tmp_path)) == 2

    def test_statistics_in_info(self):
        env = Monitor(CountingEnv(3))
        env.reset()
        infos = [env.step(0)[4] for _ in range(3)]
        assert [list(info) for info in infos] == [["count"], ["count"], ["count", "episode"]]
        episode = infos[2]["episode"]
        assert (episode["r"], episode["l"]) == (6.0, 3)
        assert env.get_episode_rewards() == [6.0]
        assert env.get_episode_lengths() == [3]
        assert len(env.get_episode_times()) == 1
        with pytest.raises(RuntimeError, match="call reset"):
            env.step(0)
        env.reset()
        env.step(0)
        env.reset()
        assert env.get_total_steps() == 4

    def test_keywords_and_early_resets(self, tmp_path):
        class Levels(CountingEnv):
            def reset(self, *, level=None, **kwargs):
                return super().reset(**kwargs)

        env = Monitor(Levels(1), tmp_path / "levels", allow_early_resets=False, reset_keywords=("level",))
        with pytest.raises(ValueError, match="'level'"):
            env.reset()
        env.reset(level=4)
        with pytest.raises(RuntimeError, match="allow_early_resets"):
            env.reset(level=5)
        env.step(0)
        assert (tmp_path / "levels.monitor.csv").read_text().splitlines()[2].endswith(",4")

    def test_append_keeps_one_header(self, tmp_path):
        for _ in range(2):
            env = Monitor(CountingEnv(1), str(tmp_path / "run"), override_existing=False)
            env.reset()
            env.step(0)
            env.close()
        lines = (tmp_path / "run.monitor.csv").read_text().splitlines()
        assert [line[0] for line in lines] == ["#", "r", "1", "1"]

    def test_loading_problems(self, tmp_path):
        with pytest.raises(LoadMonitorResultsError, match="no files named"):
            load_results(tmp_path)
        Monitor(CountingEnv(), str(tmp_path / "empty")).close()
        assert load_results(tmp_path).empty
        (tmp_path / "bad.monitor.csv").write_text("r,l,t\n1,2,3\n")
        with pytest.raises(LoadMonitorResultsError, match="is not a monitor file"):
            load_results(tmp_path)


class TestVecMonitor:
    def test_counts_episodes_and_writes_them(self, tmp_path):
        env = VecMonitor(DummyVecEnv([lambda: CountingEnv(2), lambda: CountingEnv(3)]), tmp_path / "all", ("count",))
        env.reset()
        env.step([0, 0])
        infos = env.step([0, 0])[3]
        assert {key: infos[0]["episode"][key] for key in ("r", "l", "count")} == {"r": 3.0, "l": 2, "count": 2}
        assert "episode" not in infos[1]
        step = env.step_arrays([0, 0])
        assert (step.infos[1]["episode"]["r"], step.infos[1]["episode"]["l"]) == (6.0, 3)
        assert env.episode_count == 2
        env.close()
        assert load_results(tmp_path).l.tolist() == [2, 3]

    def test_warns_of_a_monitor_inside(self):
        with pytest.warns(UserWarning, match="already have a Monitor"):
            VecMonitor(make_vec_env(CountingEnv))


class Spoiled(CountingEnv):
    def _observe(self):
        observation = super()._observe()
        if self.step_count == 2:
            observation[1] = np.nan
        return observation

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, np.inf if self.step_count == 3 else reward, *rest


class TestCheckNan:
    @pytest.mark.parametrize("quick", [True, False])
    def test_names_environment_and_array(self, quick):
        env = VecCheckNan(DummyVecEnv([CountingEnv, lambda: Spoiled(9)]), raise_exception=True)
        step = env.step_arrays if quick else env.step
        env.reset()
        step([0, 0])
        with pytest.raises(
            NonFiniteError, match=r"NaN in observations of environment 1\. It comes from the environment"
        ):
            step([0, 2])
        with pytest.raises(NonFiniteError, match="infinity in rewards of environment 1"):
            step([0, 0])
        with pytest.raises(NonFiniteError, match=r"NaN in actions of environment 0\. It comes from the policy"):
            step([np.nan, 0.0])

    def test_dictionary_key_is_named(self):
        class Bad(DictCountingEnv):
            def _observe(self):
                return super()._observe() | {"vector": np.full(2, np.inf, np.float32)}

        env = VecCheckNan(DummyVecEnv([Bad]), raise_exception=True)
        with pytest.raises(NonFiniteError, match=r"infinity in observations\['vector'\] of environment 0"):
            env.reset()
        VecCheckNan(DummyVecEnv([Bad]), raise_exception=True, check_inf=False).reset()

    def test_warns_once(self):
        env = VecCheckNan(DummyVecEnv([lambda: Spoiled(9)]))
        env.reset()
        env.step([0])
        with pytest.warns(UserWarning, match="NaN in observations of environment 0"):
            env.step([0])
        env.step([0])  # infinity, but it has warned


def test_extract_dict_obs():
    env = VecExtractDictObs(DummyVecEnv([lambda: DictCountingEnv(length=2)]), "vector")
    assert env.observation_space.shape == (2,)
    np.testing.assert_array_equal(env.reset(), [[0, 0]])
    env.step_arrays([0])
    step = env.step_arrays([0])
    np.testing.assert_array_equal(step.observations, [[100, 100]])
    np.testing.assert_array_equal(step.infos[0]["terminal_observation"], [2, 2])
    with pytest.raises(ValueError, match="did you mean 'image'"):
        VecExtractDictObs(DummyVecEnv([DictCountingEnv]), "imag")


class TestVideo:
    def test_records_where_triggered(self, tmp_path):
        import imageio.v3

        inner = make_vec_env("CartPole-v1", 2, seed=0)
        env = VecVideoRecorder(
            inner, tmp_path / "films", lambda step: step in (0, 8), video_length=5, name_prefix="cart"
        )
        env.reset()
        for _ in range(10):
            env.step_arrays(np.array([0, 1]))
        env.close()
        names = sorted(path.name for path in (tmp_path / "films").iterdir())
        assert names == ["cart-step-0-to-step-5.mp4", "cart-step-8-to-step-13.mp4"]
        frames = imageio.v3.imread(tmp_path / "films" / names[0], plugin="FFMPEG")
        assert frames.shape == (6, 800, 600, 3)
        assert env.frames_per_sec == 50

    def test_gif_without_ffmpeg(self, tmp_path, monkeypatch):
        from PIL import Image

        from proximo.envs import rendering

        found = rendering.importlib.util.find_spec
        monkeypatch.setattr(
            rendering.importlib.util, "find_spec", lambda name: None if name == "imageio_ffmpeg" else found(name)
        )
        frames = [np.full((4, 6, 3), shade, np.uint8) for shade in (0, 100, 200)]
        path = write_video(tmp_path / "film.mp4", frames, 10)
        assert path.name == "film.gif"
        with Image.open(path) as film:
            assert film.n_frames == 3
            assert film.info["duration"] == 100

    def test_needs_images(self, tmp_path):
        with pytest.raises(ValueError, match="rgb_array"):
            VecVideoRecorder(DummyVecEnv(factories()), tmp_path, lambda step: True)


def test_random_stream_through_all_wrappers_equals_stable_baselines3():
    def ours():
        return VecMonitor(VecFrameStack(DummyVecEnv([RandomEnv] * 3), 2))

    def theirs():
        return sb3.VecMonitor(sb3.VecFrameStack(sb3.DummyVecEnv([RandomEnv] * 3), 2))

    mine, quick, other = ours(), ours(), theirs()
    for env in (mine, quick, other):
        env.seed(2)
        env.reset()
    generator = np.random.default_rng(4)
    for _ in range(100):
        actions = generator.normal(size=(3, 2)).astype(np.float32)
        step, arrays, expected = mine.step(actions), quick.step_arrays(actions), other.step(actions)
        np.testing.assert_array_equal(step[0], expected[0])
        np.testing.assert_array_equal(arrays.observations, expected[0])
        np.testing.assert_array_equal(arrays.terminated | arrays.truncated, expected[2])
        for index in np.flatnonzero(expected[2]):
            for info in (step[3][index], arrays.infos[index]):
                assert info["episode"]["r"] == pytest.approx(float(expected[3][index]["episode"]["r"]), abs=1e-4)
                assert info["episode"]["l"] == expected[3][index]["episode"]["l"]
                np.testing.assert_array_equal(info["terminal_observation"], expected[3][index]["terminal_observation"])
