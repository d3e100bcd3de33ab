"""Atari games stepped by ale-py's own vector environment: the same games as with the wrappers."""

from __future__ import annotations

import cv2
import gymnasium as gym
import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv

from proximo import PPO
from proximo.envs import Monitor, VecFrameStack, make_atari_env, make_env
from proximo.envs.adapters.atari_games import AtariGames, ChannelsLast
from proximo.training.checkpoints import PeriodicCheckpoints

GAMES = ("Pong", "Breakout", "Freeway", "SpaceInvaders", "MsPacman")


def native(game, n_envs=1, seed=0, **wrapper):
    return make_atari_env(f"{game}NoFrameskip-v4", n_envs, seed, wrapper_kwargs=wrapper, native=True)


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_a_whole_game_equals_the_wrappers(game):
    compare_with_wrappers(game, steps=10_000)


@pytest.mark.parametrize("game", GAMES)
def test_the_first_steps_equal_the_wrappers(game):
    compare_with_wrappers(game, steps=250)


class GreyMaximum(gym.Wrapper):
    """What MaxAndSkipEnv and WarpFrame do, but for the order: grey first, then the maximum of the last two frames."""

    def reset(self, **options):
        frame, info = self.env.reset(**options)
        return self.shrunk([self.grey(frame)]), info

    def step(self, action):
        greys, total, over = [], 0.0, False
        while len(greys) < 4 and not over:
            frame, reward, terminated, truncated, info = self.env.step(action)
            greys.append(self.grey(frame))
            total, over = total + reward, terminated or truncated
        return self.shrunk(greys[-2:] if len(greys) == 4 else None), total, terminated, truncated, info

    @staticmethod
    def grey(frame):
        return cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)

    @staticmethod
    def shrunk(frames):
        """None where a game ended amidst the four frames: what is shown then has no meaning."""
        return frames and cv2.resize(np.max(frames, axis=0), (84, 84), interpolation=cv2.INTER_AREA)[:, :, None]


def compare_with_wrappers(game, steps):
    """Same actions: frames (grey before the maximum), rewards, lives, ends and lengths are equal."""
    reference = GreyMaximum(Monitor(make_env(f"{game}NoFrameskip-v4")))
    plain = AtariVectorEnv(
        vector_game(game), 1, stack_num=1, noop_max=0, reward_clipping=False, use_fire_reset=False, num_threads=1
    )
    ours = AtariGames(
        ChannelsLast(plain), terminal_on_life_loss=False, clip_reward=False, opening=0, max_frames=108_000
    )
    ours.seed(0)
    first, _ = reference.reset(seed=0)
    np.testing.assert_array_equal(ours.reset()[0], first)
    generator = np.random.default_rng(1)
    for _ in range(steps):
        action = int(generator.integers(reference.action_space.n))
        frame, reward, terminated, truncated, info = reference.step(action)
        step = ours.step_arrays(np.array([action]))
        assert step.rewards[0] == reward
        assert (step.terminated[0], step.truncated[0]) == (terminated, truncated)
        if frame is not None and not terminated:  # of the last frame of a game that is over nothing depends
            np.testing.assert_array_equal(step.final_observations.get(0, step.observations[0]), frame)
        if terminated or truncated:
            assert step.infos[0]["episode"]["r"] == info["episode"]["r"]
            assert step.infos[0]["episode"]["l"] == info["episode"]["l"]
            break
        assert ours._lives[0] == reference.unwrapped.ale.lives()
    if steps > 1000:
        assert terminated or truncated


def vector_game(game):
    return gym.spec(f"{game}NoFrameskip-v4").kwargs["game"]


def test_shapes_and_spaces_are_those_of_the_wrappers():
    ours, theirs = native("Breakout", 2), make_atari_env("BreakoutNoFrameskip-v4", 2, seed=0)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.reset().shape == theirs.reset().shape == (2, 84, 84, 1)
    assert native("Pong", screen_size=42).reset().shape == (1, 42, 42, 1)


class Lives:
    """Stands for ALE's environment: a game of three lives, one lost every third step; reward 5 in each step."""

    num_envs = 2

    def __init__(self, env, total=9):
        self.inner, self.taken, self.total = env, [], total
        self.single_observation_space, self.single_action_space = env.single_observation_space, env.single_action_space
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.metadata, self.render_mode, self.unwrapped = env.metadata, None, self
        self.time = np.zeros(2, int)
        self.over = np.zeros(2, bool)

    def _state(self):
        shape = (2, *self.single_observation_space.shape)
        frames = np.zeros(shape, np.uint8) + self.time.reshape(2, *[1] * (len(shape) - 1)).astype(np.uint8)
        return frames, {"lives": 3 - self.time // 3, "episode_frame_number": 4 * self.time, "env_id": np.arange(2)}

    def reset(self, options=None, **_):
        mask = np.ones(2, bool) if options is None else options["reset_mask"]
        self.time = np.where(mask, (0, 1), self.time)
        self.over = self.over & ~mask
        return self._state()

    def step(self, actions):
        self.taken.append(actions.tolist())
        self.time = np.where(self.over, 0, self.time + 1)
        rewards = np.where(self.over, 0, 5).astype(np.int32)
        self.over = self.time >= self.total
        frames, infos = self._state()
        return frames, rewards, self.over.copy(), np.zeros(2, bool), infos

    def close(self):
        pass


def lives_of(total=9, **options):
    arguments = {"terminal_on_life_loss": True, "clip_reward": True, "opening": 1, "max_frames": 108_000} | options
    env = AtariGames(Lives(native("Breakout", 2).vector_env, total), **arguments)
    env.reset()
    return env


def test_lost_lives_by_hand():
    """Environment 0 loses lives after steps 3 and 6, its game ends after step 9; environment 1 is one step ahead."""
    env = lives_of()
    rows = []
    for _ in range(11):
        step = env.step_arrays(np.array([2, 3]))
        assert step.rewards.tolist() in ([1.0, 1.0], [1.0, 0.0], [0.0, 1.0])
        valid = [True, True] if step.valid is None else step.valid.tolist()
        finals = {index: int(final[0, 0, 0]) for index, final in step.final_observations.items()}
        rows.append((step.terminated.tolist(), valid, finals, {i: "episode" in info for i, info in step.infos.items()}))
    ends = [(number, row[2], row[3]) for number, row in enumerate(rows, 1) if row[2]]
    assert ends == [
        (2, {1: 3}, {1: False}), (3, {0: 3}, {0: False}), (5, {1: 6}, {1: False}), (6, {0: 6}, {0: False}),
        (8, {1: 9}, {1: True}), (9, {0: 9}, {0: True}),
    ]  # fmt: skip
    # the step after a lost life only presses FIRE, the one after a game only resets it
    assert [number for number, row in enumerate(rows, 1) if not row[1][0]] == [4, 7, 10]
    assert [number for number, row in enumerate(rows, 1) if not row[1][1]] == [3, 6, 9]
    taken = env.vector_env.taken
    assert [actions[0] for actions in taken] == [2, 2, 2, 1, 2, 2, 1, 2, 2, 2, 2]
    assert [actions[1] for actions in taken] == [3, 3, 1, 3, 3, 1, 3, 3, 3, 3, 3]


def test_whole_games_are_counted_with_their_own_rewards():
    env = lives_of()
    episodes = {}
    for _ in range(9):
        for index, info in env.step_arrays(np.array([2, 3])).infos.items():
            if "episode" in info:
                episodes[index] = (info["episode"]["r"], info["episode"]["l"])
    assert episodes == {0: (45.0, 36), 1: (40.0, 36)}


def test_without_ends_at_lost_lives():
    env = lives_of(terminal_on_life_loss=False, clip_reward=False)
    for number in range(1, 9):
        step = env.step_arrays(np.array([2, 3]))
        assert step.rewards.tolist() == [5.0, 5.0]
        assert step.terminated.tolist() == [False, number == 8]
    assert all(1 not in actions for actions in env.vector_env.taken)


def test_the_time_limit_by_hand():
    """Games are cut after 20 frames, five steps; environment 1 is one step ahead, and loses a life in step 2."""
    env = lives_of(max_frames=20)
    rows = [env.step_arrays(np.array([2, 3])) for _ in range(7)]
    found = [
        (
            row.terminated.tolist(),
            row.truncated.tolist(),
            {i: int(f[0, 0, 0]) for i, f in row.final_observations.items()},
        )
        for row in rows
    ]
    nothing = ([False, False], [False, False], {})
    assert found[0] == nothing
    assert found[1] == ([False, True], [False, False], {1: 3})
    assert found[2] == ([True, False], [False, False], {0: 3})
    assert found[3] == ([False, False], [False, True], {1: 5})
    assert found[4] == ([False, False], [True, False], {0: 5})
    assert found[5] == nothing
    assert rows[3].infos[1]["TimeLimit.truncated"]
    assert (rows[3].infos[1]["episode"]["r"], rows[3].infos[1]["episode"]["l"]) == (20.0, 20)
    assert (rows[4].infos[0]["episode"]["r"], rows[4].infos[0]["episode"]["l"]) == (25.0, 20)
    assert rows[4].valid.tolist() == [True, False]  # a game begins
    assert rows[4].rewards.tolist() == [1.0, 0.0]
    assert rows[4].observations[1].max() == 1
    assert rows[5].valid.tolist() == [False, True]
    assert rows[5].observations[0].max() == 0
    assert rows[6].valid is None


def test_a_real_game_that_is_cut_shows_its_own_last_frame():
    def play(limit):
        env = make_atari_env(
            "PongNoFrameskip-v4", 2, 0, env_kwargs={"max_num_frames_per_episode": limit},
            wrapper_kwargs={"noop_max": 0}, native=True,
        )  # fmt: skip
        env.reset()
        return [env.step_arrays(np.array([2 + number // 4 % 2] * 2)) for number in range(60)]

    whole, cut = play(108_000), play(200)
    (end,) = [number for number, step in enumerate(cut) if step.truncated.any()]
    assert cut[end].truncated.tolist() == [True, True]
    assert 49 <= end <= 50  # of four frames each, after that of the reset and FIRE
    np.testing.assert_array_equal(cut[end].final_observations[0], whole[end].observations[0])
    assert not np.array_equal(whole[end].observations[0], whole[end - 1].observations[0])
    assert cut[end + 1].valid.tolist() == [False, False]
    assert cut[end + 2].valid is None
    np.testing.assert_array_equal(cut[end + 2].observations, whole[0].observations)  # the game begins as the first did


def test_seeds_repeat_games_whatever_was_played_before():
    first = native("Breakout", 2, seed=4)
    opening = first.reset()
    after = [first.step_arrays(np.array([1, 2])).observations.copy() for _ in range(20)]
    second = native("Breakout", 2, seed=9)
    second.reset()
    for _ in range(30):
        second.step_arrays(np.array([2, 3]))
    second.seed(4)
    np.testing.assert_array_equal(second.reset(), opening)
    for expected in after:
        np.testing.assert_array_equal(second.step_arrays(np.array([1, 2])).observations, expected)


def test_boundary_checkpoints_resume_exactly(tmp_path):
    def environments():
        return VecFrameStack(native("Breakout", 2, seed=3), 4)

    settings = {"n_steps": 4, "batch_size": 8, "n_epochs": 1, "seed": 3, "device": "cpu"}
    whole = PPO("CnnPolicy", environments(), **settings)
    whole.learn(16, callback=PeriodicCheckpoints(tmp_path / "whole", every_steps=8, boundary=True, keep_last=10))
    assert not environments().has_state()
    checkpoints = sorted((tmp_path / "whole").glob("model_8_steps.zip"))
    assert checkpoints
    resumed = PPO.load(checkpoints[0], env=environments())
    resumed.resume(callback=PeriodicCheckpoints(tmp_path / "resumed", every_steps=8, boundary=True))
    for one, two in zip(whole.policy.parameters(), resumed.policy.parameters(), strict=True):
        np.testing.assert_array_equal(one.detach(), two.detach())


@pytest.mark.parametrize(
    ("env_id", "options", "words"),
    [
        ("CartPole-v1", {}, "no game of ale-py"),
        ("ALE/Pong-v5", {}, "skips frames by itself"),
        ("PongNoFrameskip-v4", {"env_kwargs": {"obs_type": "ram"}}, "no env_kwargs 'obs_type'"),
        ("PongNoFrameskip-v4", {"monitor_dir": "somewhere"}, "takes no monitor_dir"),
        ("PongNoFrameskip-v4", {"n_envs": 0}, "n_envs must be at least 1"),
    ],
)
def test_what_cannot_be_native_is_refused(env_id, options, words):
    with pytest.raises(ValueError, match=words):
        make_atari_env(env_id, native=True, **options)
    with pytest.raises(TypeError, match="takes the id of a game"):
        make_atari_env(lambda: make_env(env_id), native=True)
