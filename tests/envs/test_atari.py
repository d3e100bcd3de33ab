from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common import atari_wrappers as sb3
from stable_baselines3.common.env_util import make_atari_env as sb3_make_atari_env

from proximo.envs import (
    AtariWrapper,
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    MaxAndSkipEnv,
    Monitor,
    NoopResetEnv,
    StickyActionEnv,
    VecFrameStack,
    VecTransposeImage,
    as_vec_env,
    make_atari_env,
    make_env,
)
from proximo.envs.testing.environments import IdentityEnv

GAME = "BreakoutNoFrameskip-v4"


class Console(gym.Env):
    """A fake game: frame k is grey k; three lives, one lost every five frames; reward 1 - k % 3."""

    def __init__(self, meanings=("NOOP", "FIRE", "RIGHT")):
        self.observation_space = spaces.Box(0, 255, (210, 160, 3), np.uint8)
        self.action_space = spaces.Discrete(len(meanings))
        self.meanings = list(meanings)
        self.ale = self
        self.games = 0
        self.taken = []

    def get_action_meanings(self):
        return self.meanings

    def lives(self):
        return 3 - self.frame // 5

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.frame = 0
        self.games += 1
        return self._screen(), {}

    def step(self, action):
        self.frame += 1
        self.taken.append(int(action))
        return self._screen(), 1.0 - self.frame % 3, self.lives() == 0, False, {}

    def _screen(self):
        # odd frames are dark: only the maximum of two shows the number
        return np.full((210, 160, 3), 0 if self.frame % 2 else self.frame, np.uint8)


def test_pong_equals_stable_baselines3():
    ours = make_atari_env("PongNoFrameskip-v4", n_envs=2, seed=3)
    theirs = sb3_make_atari_env("PongNoFrameskip-v4", n_envs=2, seed=3)
    assert ours.observation_space == theirs.observation_space
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    generator = np.random.default_rng(0)
    for _ in range(60):
        actions = generator.integers(0, 6, 2)
        mine, other = ours.step(actions), theirs.step(actions)
        for one, two in zip(mine[:3], other[:3], strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"noop_max": 0, "frame_skip": 1, "terminal_on_life_loss": False, "clip_reward": False, "screen_size": 60},
        {"action_repeat_probability": 0.5},
    ],
)
def test_a_game_with_lives_equals_stable_baselines3(settings):
    ours = make_atari_env(GAME, seed=1, wrapper_kwargs=settings)
    theirs = sb3_make_atari_env(GAME, seed=1, wrapper_kwargs=settings)
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    generator = np.random.default_rng(2)
    ended = 0
    for _ in range(150):
        actions = generator.integers(0, 4, 1)
        step, expected = ours.step_arrays(actions), theirs.step(actions)
        np.testing.assert_array_equal(step.observations, expected[0])
        np.testing.assert_array_equal(step.rewards, expected[1])
        np.testing.assert_array_equal(step.terminated | step.truncated, expected[2])
        ended += int(expected[2][0])
        for index, info in step.infos.items():
            assert ("episode" in info) == ("episode" in expected[3][index])  # a lost life is not the end of the game
    assert ended or settings.get("frame_skip") == 1


def test_stack_is_ready_for_convolutions():
    env = as_vec_env(VecFrameStack(make_atari_env(GAME, n_envs=2, seed=0), 4))
    assert isinstance(env, VecTransposeImage)
    env.reset()
    observations = env.step_arrays(np.zeros(2, int)).observations
    assert observations.shape == (2, 4, 84, 84)
    assert observations.dtype == np.uint8
    assert observations.flags.c_contiguous


def test_skip_sums_rewards_and_takes_the_maximum():
    env = MaxAndSkipEnv(Console(), skip=4)
    env.reset()
    frame, reward, *_ = env.step(2)
    assert frame[0, 0, 0] == 4  # of frames 3 (dark) and 4
    assert reward == (1 - 1) + (1 - 2) + (1 - 0) + (1 - 1)
    assert env.unwrapped.taken == [2] * 4
    frame, *_ = env.step(0)
    assert frame[0, 0, 0] == 8


def test_life_loss_ends_the_episode_but_not_the_game():
    env = EpisodicLifeEnv(Console())
    env.reset()
    ends = []
    for number in range(1, 11):
        if env.step(1)[2]:
            ends.append(number)
            env.reset()  # one idle frame
    assert ends == [5, 9]
    assert env.unwrapped.games == 1
    assert env.unwrapped.taken.count(0) == 2
    while not env.was_real_done:
        env.step(1)
    env.reset()
    assert env.unwrapped.games == 2


def test_noops_and_fire_at_reset():
    console = Console()
    env = NoopResetEnv(console, noop_max=4)
    env.override_num_noops = 3
    env.reset()
    assert console.taken == [0, 0, 0]
    env.override_num_noops = None
    counts = set()
    for seed in range(30):
        console.taken.clear()
        env.reset(seed=seed)
        counts.add(len(console.taken))
    assert counts == {1, 2, 3, 4}
    console.taken.clear()
    FireResetEnv(console).reset()
    assert console.taken == [1, 2]


def test_sticky_actions_repeat():
    console = Console()
    env = StickyActionEnv(console, 0.5)
    env.reset(seed=0)
    for action in [1, 2] * 200:
        if console.frame == 14:
            env.reset()
        env.step(action)
    repeats = sum(taken != wanted for taken, wanted in zip(console.taken, [1, 2] * 200, strict=True))
    assert 60 < repeats < 140  # half of them stick, and half of those would have been another action


def test_reward_signs():
    env = ClipRewardEnv(Console())
    assert [env.reward(value) for value in (-7, 0, 0.2)] == [-1.0, 0.0, 1.0]


def test_wrapper_order_and_checks():
    env = AtariWrapper(Console(("NOOP", "RIGHT", "LEFT")), clip_reward=False)
    names = []
    while isinstance(env, gym.Wrapper):
        names.append(type(env).__name__)
        env = env.env
    assert names == ["AtariWrapper", "WarpFrame", "EpisodicLifeEnv", "MaxAndSkipEnv", "NoopResetEnv"]
    with pytest.raises(ValueError, match="action 1 to be FIRE"):
        FireResetEnv(Console(("NOOP", "RIGHT", "LEFT")))
    with pytest.raises(TypeError, match="image observations"):
        MaxAndSkipEnv(IdentityEnv(3))


def test_monitor_sits_inside_and_ale_is_found():
    env = make_atari_env("ALE/Pong-v5", env_kwargs={"frameskip": 1})
    assert env.env_is_wrapped(Monitor) == [True]
    assert env.env_is_wrapped(sb3.AtariWrapper) == [True]  # which the library's own stands for
    assert make_env("PongNoFrameskip-v4").spec.id == "PongNoFrameskip-v4"


def test_frames_in_reused_memory():
    """The brighter of the last two frames, also where an environment draws into the same array each time."""

    class OneCanvas(gym.Env):
        observation_space = spaces.Box(0, 255, (1,), np.uint8)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.canvas, self.brightness = np.zeros(1, np.uint8), iter([5, 7, 9, 1])
            return self.canvas, {}

        def step(self, action):
            self.canvas[:] = next(self.brightness)
            return self.canvas, 1.0, False, False, {}

    for wrapper in (MaxAndSkipEnv, sb3.MaxAndSkipEnv):
        env = wrapper(OneCanvas())
        env.reset()
        assert env.step(0)[0] == 9
