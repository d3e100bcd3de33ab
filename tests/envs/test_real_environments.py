"""Procgen, Atari, PyBullet, MiniGrid and EnvPool themselves, started, stepped and trained on for a moment."""

from __future__ import annotations

import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from proximo import PPO
from proximo.envs import (
    VecFrameStack,
    VecNormalize,
    make_atari_env,
    make_env,
    make_env_pool,
    make_env_pool_atari,
    make_procgen_env,
    make_vec_env,
    wrap_minigrid,
)
from proximo.envs.adapters.qt import load_qt
from proximo.envs.vector.vec_env import arrays_from_step
from proximo.envs.wrappers.minigrid import MiniGridImage
from proximo.errors import MissingExtraError, MissingSystemLibraryError


def walk(env, steps, seed=0):
    """Random actions; what ``step_arrays`` gave, copied."""
    generator = np.random.default_rng(seed)
    env.reset()
    for _ in range(steps):
        step = env.step_arrays(generator.integers(env.action_space.n, size=env.num_envs))
        yield step._replace(observations=step.observations.copy(), rewards=step.rewards.copy())


def learn_a_little(policy, env, **kwargs):
    """Two rollouts of eight steps; parameters must move and stay finite."""
    model = PPO(policy, env, n_steps=8, batch_size=8 * env.num_envs, n_epochs=1, seed=0, **kwargs)
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    model.learn(2 * 8 * env.num_envs)
    after = model.policy.state_dict()
    assert any(not value.equal(before[name]) for name, value in after.items())
    assert all(value.isfinite().all() for value in after.values())
    assert model.num_timesteps == 2 * 8 * env.num_envs
    return model


class TestProcgen:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("envpool")
        try:
            load_qt()
        except MissingSystemLibraryError as error:
            pytest.skip(str(error))

    def test_images_and_actions(self):
        env = make_procgen_env("coinrun", num_envs=2)
        assert env.observation_space == spaces.Box(0, 255, (3, 64, 64), np.uint8)
        assert env.action_space == spaces.Discrete(15)
        first = env.reset()
        assert first.shape == (2, 3, 64, 64)
        assert first.dtype == np.uint8
        assert first.std() > 10
        assert len({step.observations.tobytes() for step in walk(env, 5)}) == 5

    def test_terminal_rewards_are_kept_and_reported_whole(self):
        """A maze pays 10 at its end and nothing before; its time is up after 500 steps."""
        env = make_procgen_env("maze", num_envs=4, gamma=None)
        ends = []
        for step in walk(env, 600):
            for index, info in step.infos.items():
                ends.append((step.rewards[index], info["episode"]["r"], bool(step.terminated[index])))
                assert step.truncated[index] != step.terminated[index]
        solved = [end for end in ends if end[2]]
        late = [end for end in ends if not end[2]]
        assert solved
        assert late
        assert set(solved) == {(10.0, 10.0, True)}
        assert set(late) == {(0.0, 0.0, False)}

    def test_normalised_rewards_leave_the_reported_returns_alone(self):
        raw = list(walk(make_procgen_env("maze", num_envs=4, gamma=None), 400))
        env = make_procgen_env("maze", num_envs=4, gamma=0.9)
        assert isinstance(env, VecNormalize)
        assert env.gamma == 0.9
        shown = list(walk(env, 400))
        paid = np.array([step.rewards for step in raw])
        normalised = np.array([step.rewards for step in shown])
        assert (paid == 10).any()
        np.testing.assert_array_equal(normalised != 0, paid != 0)
        assert np.abs(normalised).max() <= 10.0
        assert not np.array_equal(normalised, paid)
        returns = [info["episode"]["r"] for step in shown for info in step.infos.values()]
        assert returns == [info["episode"]["r"] for step in raw for info in step.infos.values()]

    def test_levels_are_those_asked_for(self):
        levels = {
            info["prev_level_seed"]
            for step in walk(make_procgen_env("maze", num_envs=8, num_levels=3, start_level=5, gamma=None), 550)
            for info in step.infos.values()
        }
        assert levels == {5, 6, 7}

    def test_a_seed_repeats_itself_and_another_does_not(self):
        def frames(seed):
            return np.array([step.observations for step in walk(make_procgen_env("leaper", 2, seed=seed), 5)])

        np.testing.assert_array_equal(frames(3), frames(3))
        assert not np.array_equal(frames(3), frames(4))

    def test_training(self):
        learn_a_little("CnnPolicy", make_procgen_env("bigfish", num_envs=4))

    @pytest.mark.parametrize(
        ("game", "mode", "message"),
        [
            ("bigfsh", "easy", "did you mean 'bigfish'"),
            ("bigfish", "eesy", "did you mean 'easy'"),
            ("bigfish", "extreme", "no environment 'BigfishExtreme-v0'"),
        ],
    )
    def test_unknown_names(self, game, mode, message):
        with pytest.raises(ValueError, match=message):
            make_procgen_env(game, 2, distribution_mode=mode)

    def test_no_environments(self):
        with pytest.raises(ValueError, match="num_envs must be at least 1, got 0"):
            make_procgen_env("bigfish", 0)

    def test_missing_envpool_names_the_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "envpool", None)
        with pytest.raises(MissingExtraError, match=r"proximo\[procgen\]"):
            make_procgen_env("bigfish", 2)


class TestEnvPool:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("envpool")

    def test_classic_control(self):
        env = make_env_pool("CartPole-v1", num_envs=3, seed=1)
        steps = list(walk(env, 60))
        lengths = [info["episode"]["l"] for step in steps for info in step.infos.values()]
        assert lengths
        assert all(8 <= length <= 60 for length in lengths)
        learn_a_little("MlpPolicy", env)

    def test_unknown_task(self):
        with pytest.raises(ValueError, match="did you mean 'CartPole-v1'"):
            make_env_pool("CartPole-v9", num_envs=1)

    def test_atari_reports_games_not_lives(self):
        """Breakout has five lives; a lost one ends an episode for the learner, not for the report."""
        env = make_env_pool_atari("Breakout-v5", num_envs=2, seed=1, stack_num=1)
        assert env.observation_space.shape == (1, 84, 84)
        plain = make_env_pool("Breakout-v5", num_envs=2, seed=1, stack_num=1, episodic_life=True)
        ends, reported, returns, shown = np.zeros(2), [], np.zeros(2), []
        for step, raw in zip(walk(env, 400), walk(plain, 400), strict=True):
            shown.append(step.rewards)
            np.testing.assert_array_equal(step.rewards, np.sign(raw.rewards))
            returns += raw.rewards
            for index, info in step.infos.items():
                ends[index] += 1
                if "episode" in info:
                    reported.append((ends[index], info["episode"]["r"] == returns[index]))
                    ends[index] = returns[index] = 0
        assert len(reported) >= 2
        assert set(reported) == {(5, True)}
        assert set(np.unique(shown)) == {0.0, 1.0}

    def test_four_tuples_say_the_same(self):
        stepped = make_env_pool_atari("Breakout-v5", num_envs=2, seed=1, stack_num=1)
        stepped.reset()
        generator = np.random.default_rng(0)
        other = walk(make_env_pool_atari("Breakout-v5", num_envs=2, seed=1, stack_num=1), 150)
        for wanted in other:
            got = arrays_from_step(*stepped.step(generator.integers(stepped.action_space.n, size=2)))
            np.testing.assert_array_equal(got.rewards, wanted.rewards)
            np.testing.assert_array_equal(got.terminated, wanted.terminated)
            assert {key: "episode" in info for key, info in got.infos.items()} == {
                key: "episode" in info for key, info in wanted.infos.items()
            }

    def test_atari_training(self):
        learn_a_little("CnnPolicy", make_env_pool_atari("Pong-v5", num_envs=2))


class TestAtari:
    def test_stepping_and_training(self):
        pytest.importorskip("ale_py")
        env = VecFrameStack(make_atari_env("BreakoutNoFrameskip-v4", n_envs=2, seed=0), 4)
        frames = [step.observations for step in walk(env, 4)]
        assert frames[-1].shape == (2, 84, 84, 4)
        assert frames[-1].any(axis=(1, 2)).all()
        learn_a_little("CnnPolicy", env)


class TestPyBullet:
    def test_stepping_and_training(self):
        pytest.importorskip("pybullet_envs_gymnasium")
        env = make_vec_env("HopperBulletEnv-v0", n_envs=2, seed=0)
        first = env.reset().copy()
        step = env.step_arrays(np.zeros((2, 3), np.float32))
        assert first.shape == step.observations.shape == (2, 15)
        assert np.abs(step.observations - first).max() > 1e-3
        learn_a_little("MlpPolicy", env)


class TestRememberedBulletFunctions:
    @pytest.fixture
    def quickened(self):
        pytest.importorskip("pybullet_envs_gymnasium")
        env = make_vec_env("HopperBulletEnv-v0", n_envs=1, seed=3)
        env.reset()
        yield env
        env.close()

    def test_steps_are_those_of_the_plain_environment(self, quickened):
        plain = gym.make("HopperBulletEnv-v0")
        plain.reset(seed=3)  # the first reset loads the robot, later ones only put it back
        quickened.seed(3)
        observations, (expected, _) = quickened.reset(), plain.reset(seed=3)
        generator = np.random.default_rng(0)
        for _ in range(60):  # over the end of an episode
            np.testing.assert_array_equal(observations[0], expected)
            action = generator.uniform(-1, 1, plain.action_space.shape).astype(np.float32)
            observations, rewards, dones, _ = quickened.step(action[None])
            expected, reward, terminated, truncated, _ = plain.step(action)
            assert rewards[0] == np.float32(reward)
            assert dones[0] == (terminated or truncated)
            if dones[0]:
                expected, _ = plain.reset()
        plain.close()

    def test_a_function_is_looked_up_once(self, quickened):
        client = quickened.get_attr("_p")[0]
        quickened.step(np.zeros((1, 3), np.float32))
        assert client.getLinkState is client.getLinkState

    def test_a_closed_connection_reaches_no_other(self, quickened):
        import pybullet

        client = quickened.get_attr("_p")[0]
        assert client.getNumBodies() > 0
        assert "getNumBodies" in vars(client)
        quickened.envs[0].unwrapped.close()
        with gym.make("HopperBulletEnv-v0") as other:  # whose connection takes the free number
            other.reset()
            with pytest.raises(pybullet.error, match="Not connected"):
                client.getJointInfo(0, 0)


class TestMiniGrid:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("minigrid")

    def test_whole_grid_as_an_image(self):
        env = wrap_minigrid(make_env("MiniGrid-Empty-5x5-v0"))
        observation, _ = env.reset(seed=0)
        assert env.observation_space == spaces.Box(0, 255, (3, 5, 5), np.uint8)
        assert env.observation_space.contains(observation)
        objects = observation[0]
        assert (objects[[0, -1], :] == 2).all()  # walls around
        assert (objects == 10).sum() == 1  # the agent
        assert objects[3, 3] == 8  # the goal
        observation, *_ = env.step(2)  # forward
        assert np.argwhere(observation[0] == 10).tolist() == [[2, 1]]

    def test_words_as_numbers(self):
        env = wrap_minigrid(make_env("MiniGrid-DoorKey-5x5-v0"), fully_observable=False, fully_numerical=True)
        observation, _ = env.reset(seed=0)
        assert observation["image"].shape == (3, 7, 7)
        assert observation["mission"].shape == (50,)
        assert observation["mission"].any()
        assert env.observation_space.contains({**observation, "direction": np.int64(observation["direction"])})

    def test_flat_view(self):
        env = wrap_minigrid(make_env("MiniGrid-DoorKey-5x5-v0"), fully_observable=False)
        assert env.reset(seed=0)[0].shape == (2835,)

    def test_training(self):
        learn_a_little("MlpPolicy", make_vec_env("MiniGrid-Empty-5x5-v0", 2, seed=0, wrapper_class=wrap_minigrid))

    def test_training_on_the_flat_view(self):
        kwargs = {"fully_observable": False}
        env = make_vec_env("MiniGrid-DoorKey-5x5-v0", 2, 0, wrapper_class=wrap_minigrid, wrapper_kwargs=kwargs)
        learn_a_little("MlpPolicy", env)

    def test_other_environments_are_refused(self):
        with pytest.raises(ValueError, match="expected a MiniGrid environment"):
            MiniGridImage(gym.make("CartPole-v1"))

    def test_missing_package_names_the_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "minigrid", None)
        with pytest.raises(MissingExtraError, match=r"proximo\[minigrid\]"):
            wrap_minigrid(gym.make("CartPole-v1"))
