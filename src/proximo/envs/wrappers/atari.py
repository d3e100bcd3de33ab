"""Atari preprocessing as in the Nature DQN paper (Mnih et al. 2015) and Machado et al. 2018 for sticky actions."""

from __future__ import annotations

from functools import cache
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from proximo.data import Array, Info
from proximo.envs.wrappers.monitor import Monitor
from proximo.errors import ArgumentTypeError, MissingExtraError

NOOP, FIRE, SECOND = 0, 1, 2


class _AtariLayer(gym.Wrapper[Any, Any, Any, Any]):
    """A wrapper that knows the game's action names."""

    def _require_action(self, action: int, meaning: str) -> None:
        meanings = self.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
        if len(meanings) <= action or meanings[action] != meaning:
            raise ValueError(f"{type(self).__name__} needs action {action} to be {meaning}, the actions are {meanings}")


class StickyActionEnv(_AtariLayer):
    """Repeat the previous action with the given probability instead of the chosen one."""

    def __init__(self, env: gym.Env[Any, Any], action_repeat_probability: float) -> None:
        """Arguments:
        env: The Atari environment that is wrapped.
        action_repeat_probability: Probability of repeating the previous action.
        """
        super().__init__(env)
        self.action_repeat_probability = action_repeat_probability
        self._require_action(NOOP, "NOOP")
        self._sticky_action = NOOP

    def reset(self, **kwargs: Any) -> tuple[Any, Info]:
        self._sticky_action = NOOP
        return self.env.reset(**kwargs)

    def step(self, action: int) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        if self.np_random.random() >= self.action_repeat_probability:
            self._sticky_action = action
        return self.env.step(self._sticky_action)


class NoopResetEnv(_AtariLayer):
    """Open each game with 1 to ``noop_max`` idle frames, so that no two games start alike."""

    def __init__(self, env: gym.Env[Any, Any], noop_max: int = 30) -> None:
        """Arguments:
        env: The Atari environment that is wrapped.
        noop_max: Most idle frames at the start.
        """
        super().__init__(env)
        self.noop_max = noop_max
        self.override_num_noops: int | None = None
        self.noop_action = NOOP
        self._require_action(NOOP, "NOOP")

    def reset(self, **kwargs: Any) -> tuple[Any, Info]:
        observation, info = self.env.reset(**kwargs)
        noops = self.override_num_noops or int(self.unwrapped.np_random.integers(1, self.noop_max + 1))
        for _ in range(noops):
            observation, _, terminated, truncated, info = self.env.step(self.noop_action)
            if terminated or truncated:
                observation, info = self.env.reset(**kwargs)
        return observation, info


class FireResetEnv(_AtariLayer):
    """Press FIRE, then the second button, after a reset: some games wait for it."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """Arguments:
        env: The Atari environment that is wrapped.
        """
        super().__init__(env)
        self._require_action(FIRE, "FIRE")

    def reset(self, **kwargs: Any) -> tuple[Any, Info]:
        self.env.reset(**kwargs)
        observation = None
        for action in (FIRE, SECOND):
            observation, _, terminated, truncated, _ = self.env.step(action)
            if terminated or truncated:
                observation, _ = self.env.reset(**kwargs)
        return observation, {}


class EpisodicLifeEnv(gym.Wrapper[Any, Any, Any, Any]):
    """End the episode when a life is lost; the game itself is reset only when it is over.

    A reset after a lost life plays one idle step instead, so that later lives are reached too; with a seed it is a
    real one, since that is what the seed determines.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """Arguments:
        env: The Atari environment that is wrapped.
        """
        super().__init__(env)
        self.lives = 0
        self.was_real_done = True

    def step(self, action: int) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.was_real_done = terminated or truncated
        lives = self._remaining_lives()
        # some games show 0 lives for a few frames before they end: only their own end counts then
        if 0 < lives < self.lives:
            terminated = True
        self.lives = lives
        return observation, reward, terminated, truncated, info

    def reset(self, **kwargs: Any) -> tuple[Any, Info]:
        if self.was_real_done or kwargs.get("seed") is not None:
            observation, info = self.env.reset(**kwargs)
        else:
            observation, _, terminated, truncated, info = self.env.step(NOOP)
            if terminated or truncated:  # the idle step may end the game
                observation, info = self.env.reset(**kwargs)
        self.lives = self._remaining_lives()
        return observation, info

    def _remaining_lives(self) -> int:
        return int(self.unwrapped.ale.lives())  # type: ignore[attr-defined]


class MaxAndSkipEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Hold each action for ``skip`` frames, sum their rewards, and show the brighter of the last two, pixel by pixel.

    The maximum is there because the console draws some sprites only in every other frame.
    """

    def __init__(self, env: gym.Env[Any, Any], skip: int = 4) -> None:
        """Arguments:
        env: The Atari environment that is wrapped.
        skip: Frames for which an action is held.
        """
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box):
            raise TypeError(f"MaxAndSkipEnv needs image observations, got {space}")
        self._last_two: list[Array] = [np.zeros(space.shape, space.dtype)] * 2
        self._skip = skip
        self._game: Any = _game_whose_frames_only_come_here(env)

    def step(self, action: int) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        total_reward = 0.0
        for frame_index in range(self._skip):
            seen = frame_index >= self._skip - 2
            step = self.env.step if seen or self._game is None else self._step_unseen
            frame, reward, terminated, truncated, info = step(action)
            total_reward += float(reward)
            if seen:
                # the game draws into new memory each time; another environment may not
                self._last_two[frame_index - self._skip] = frame if self._game is not None else np.array(frame)
            if terminated or truncated:
                break
        return np.maximum(*self._last_two), total_reward, terminated, truncated, info

    def _step_unseen(self, action: int) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        """A step whose frame is not drawn, which would take a third of its time; an old frame stands in."""
        self._game._get_obs = lambda: self._last_two[0]
        try:
            return self.env.step(action)
        finally:
            del self._game._get_obs


def _game_whose_frames_only_come_here(env: gym.Env[Any, Any]) -> Any | None:
    """ALE's own environment, if every layer above it passes frames on without a look."""
    while type(env) in (StickyActionEnv, NoopResetEnv, Monitor, TimeLimit, OrderEnforcing, PassiveEnvChecker):
        env = env.env  # type: ignore[attr-defined]
    return env if type(env).__module__ == "ale_py.env" else None


class ClipRewardEnv(gym.RewardWrapper[Any, Any]):
    """Keep only the sign of the reward: −1, 0 or 1."""

    def reward(self, reward: SupportsFloat) -> float:
        value = float(reward)
        return float((value > 0) - (value < 0))


class WarpFrame(gym.ObservationWrapper[Any, Any, Any]):
    """Grey image of ``height`` × ``width`` × 1."""

    def __init__(self, env: gym.Env[Any, Any], width: int = 84, height: int = 84) -> None:
        """Arguments:
        env: The Atari environment that is wrapped.
        width: Width of the image.
        height: Height of the image.
        """
        super().__init__(env)
        if not isinstance(env.observation_space, spaces.Box):
            raise ArgumentTypeError(f"WarpFrame needs image observations, got {env.observation_space}")
        self.width, self.height = width, height
        self.observation_space = spaces.Box(0, 255, (height, width, 1), dtype=env.observation_space.dtype.type)
        self._cv2 = _opencv()

    def observation(self, frame: Array) -> Array:
        cv2 = self._cv2
        grey = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)
        small: Array = cv2.resize(grey, (self.width, self.height), interpolation=cv2.INTER_AREA)
        return small[:, :, None]


@cache
def _opencv() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("opencv-python-headless", "atari", "Atari preprocessing") from error
    cv2.ocl.setUseOpenCL(False)
    return cv2


class AtariWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """The usual Atari preprocessing, for environments without frame skip of their own (``…NoFrameskip-v4``).

    From the inside out: sticky actions (off), idle start, frame skip with maximum, end on life loss, FIRE at reset,
    grey ``screen_size`` × ``screen_size``, reward sign.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        noop_max: int = 30,
        frame_skip: int = 4,
        screen_size: int = 84,
        terminal_on_life_loss: bool = True,
        clip_reward: bool = True,
        action_repeat_probability: float = 0.0,
    ) -> None:
        """Arguments:
        env: The Atari environment that is wrapped.
        noop_max: Most idle frames at the start; 0 leaves them out.
        frame_skip: Frames for which an action is held; 1 leaves it out.
        screen_size: Side of the grey image.
        terminal_on_life_loss: Whether a lost life ends the episode.
        clip_reward: Whether only the sign of a reward counts.
        action_repeat_probability: Probability of repeating the previous action; 0 leaves it out.
        """
        if action_repeat_probability > 0.0:
            env = StickyActionEnv(env, action_repeat_probability)
        if noop_max > 0:
            env = NoopResetEnv(env, noop_max)
        if frame_skip > 1:
            env = MaxAndSkipEnv(env, frame_skip)
        if terminal_on_life_loss:
            env = EpisodicLifeEnv(env)
        if "FIRE" in env.unwrapped.get_action_meanings():  # type: ignore[attr-defined]
            env = FireResetEnv(env)
        env = WarpFrame(env, width=screen_size, height=screen_size)
        if clip_reward:
            env = ClipRewardEnv(env)
        super().__init__(env)
