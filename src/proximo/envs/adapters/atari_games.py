"""Atari games that ale-py steps itself, all at once in threads of C++ (``ale_py.vector_env.AtariVectorEnv``).

What is shown, ended and counted is as with :class:`proximo.envs.wrappers.atari.AtariWrapper`, but not
frame by frame the same:

* of the last two frames the maximum is taken after they were made grey, not before: where something moves or flickers,
  pixels differ, by up to 16 of 255 in Pong and 110 in Breakout;
* after a reset FIRE is pressed for one frame; the wrappers hold it, and the second button, for four each;
* after a lost life the next step presses FIRE (or nothing, where a game has none) whatever the action was, and never
  trains; the wrappers do the same between two steps;
* the time limit (108,000 frames) ends a game after the step that reaches it, not between two frames of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from proximo.cores import usable_cores
from proximo.data import Array, Info, StepArrays, observation_rows
from proximo.envs.adapters.gymnasium_vector import VectorEnvAdapter
from proximo.envs.wrappers.atari import FIRE, NOOP
from proximo.errors import MissingExtraError, near_matches

_SETTINGS = ("repeat_action_probability", "full_action_space", "max_num_frames_per_episode", "frameskip")
NO_LIMIT = 2**30  # frames


class ChannelsLast(VectorWrapper):
    """Images [env, 1, height, width] as [env, height, width, 1], in the same memory."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        """Arguments:
        env: Vector environment of grey images [env, 1, height, width].
        """
        super().__init__(env)
        _, *size = env.single_observation_space.shape or ()
        self._shape = (env.num_envs, *size, 1)
        self.single_observation_space = spaces.Box(0, 255, self._shape[1:], np.uint8)
        self.observation_space = spaces.Box(0, 255, self._shape, np.uint8)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        observations, infos = self.env.reset(seed=seed, options=options)
        return observations.reshape(self._shape), infos

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, Info]:
        observations, *others = self.env.step(actions)
        return observations.reshape(self._shape), *others


class AtariGames(VectorEnvAdapter):
    """Games of ALE's vector environment: a lost life ends an episode, rewards are shown by their sign.

    ``episode`` in the infos reports whole games with the game's own rewards, and lengths in frames. The game itself
    goes on after a lost life: ``episodic_life`` of ALE's environment would reset it.
    """

    def __init__(
        self,
        vector_env: VectorEnv[Any, Any, Any],
        terminal_on_life_loss: bool,
        clip_reward: bool,
        opening: int,
        max_frames: int,
    ) -> None:
        """Arguments:
        terminal_on_life_loss: Whether a lost life ends the episode; the game itself goes on.
        clip_reward: Whether rewards are their signs.
        opening: The action of the first step after a lost life.
        max_frames: Frames after which a game is cut.
        """
        super().__init__(vector_env)
        self.terminal_on_life_loss, self.clip_reward, self.opening = terminal_on_life_loss, clip_reward, opening
        self.max_frames = max_frames
        self._lives = np.zeros(self.num_envs, np.int64)
        self._after_loss = np.zeros(self.num_envs, bool)  # whose next step only begins the next life
        self._cut = np.zeros(self.num_envs, bool)  # by the time limit: whose next step only begins a game

    @property
    def has_workers(self) -> bool:
        return True  # threads, which need the cores as worker processes do

    def reset(self) -> Array:
        observations: Array = super().reset()  # type: ignore[assignment]
        self._lives = np.array((self._vector_infos or {})["lives"])
        self._after_loss[:] = self._cut[:] = False
        return observations

    def _advance(self, actions: Any) -> tuple[StepArrays, Info]:
        opening = self._after_loss
        step, infos = super()._advance(np.where(opening, self.opening, self._batched(actions)))
        if self._cut.any():
            step, infos = self._begin_again(step, self._cut)
        over = step.terminated | step.truncated
        frames, lives = infos["episode_frame_number"], np.array(infos["lives"])
        for index in np.flatnonzero(over).tolist():
            step.infos[index]["episode"]["l"] = int(frames[index])
        if opening.any():
            valid = np.ones(self.num_envs, bool) if step.valid is None else step.valid
            step = step._replace(valid=valid & ~opening)
        # some games show 0 lives for a few frames before they end: only their own end counts then
        lost = (lives > 0) & (lives < self._lives) & ~over & self.terminal_on_life_loss
        self._cut = (frames >= self.max_frames) & ~over
        self._lives, self._after_loss = lives, lost & ~self._cut
        step = self._with_further_ends(step, infos, lost & ~opening, self._cut)
        return step._replace(rewards=np.sign(step.rewards)) if self.clip_reward else step, infos

    def _begin_again(self, step: StepArrays, cut: Array) -> tuple[StepArrays, Info]:
        """Reset games that the time limit had cut: what was stepped of them meanwhile counts for nothing.

        ALE's own limit would end a game amidst the frames of a step, and show those of the step before.
        """
        observations, infos = self.vector_env.reset(options={"reset_mask": cut})
        self._to_be_reset = [index for index in self._to_be_reset if not cut[index]]
        for index in np.flatnonzero(cut).tolist():
            self.reset_infos[index] = self._info(infos, index)
        begun = step._replace(
            observations=observations,
            rewards=np.where(cut, np.float32(0), step.rewards),
            terminated=step.terminated & ~cut,
            final_observations={index: final for index, final in step.final_observations.items() if not cut[index]},
            infos={index: info for index, info in step.infos.items() if not cut[index]},
        )
        return begun, infos

    def _with_further_ends(self, step: StepArrays, vector_infos: Info, lost: Array, cut: Array) -> StepArrays:
        """The step with ends where a life was lost, and where the time limit cut a game."""
        ended = np.flatnonzero(lost | cut).tolist()
        if not ended:
            return step
        finals, infos = dict(step.final_observations), dict(step.infos)
        for index in ended:
            finals[index] = observation_rows(step.observations, index).copy()
            info = {**self._info(vector_infos, index), "terminal_observation": finals[index]}
            if cut[index]:
                frames = int(vector_infos["episode_frame_number"][index])
                info["episode"] = {**self._totals.take(index), "l": frames}
                self._to_be_reset.append(index)
            infos[index] = {**info, "TimeLimit.truncated": bool(cut[index] and not lost[index])}
        return step._replace(
            terminated=step.terminated | lost,
            truncated=step.truncated | (cut & ~lost),
            final_observations=dict(sorted(finals.items())),
            infos=dict(sorted(infos.items())),
        )


def make_atari_games(
    env_id: str,
    n_envs: int,
    env_kwargs: Mapping[str, Any],
    *,
    noop_max: int = 30,
    frame_skip: int = 4,
    screen_size: int = 84,
    terminal_on_life_loss: bool = True,
    clip_reward: bool = True,
    action_repeat_probability: float = 0.0,
) -> AtariGames:
    """``n_envs`` games of a registered id; arguments and defaults are those of :class:`AtariWrapper`."""
    try:
        from ale_py.vector_env import AtariVectorEnv
    except ModuleNotFoundError as error:
        raise MissingExtraError("ale-py", "atari", "make_atari_env(native=True)") from error
    settings = {**gym.spec(env_id).kwargs, **env_kwargs}
    game, settings = settings.pop("game", None), {k: v for k, v in settings.items() if k != "render_mode"}
    if game is None:
        raise ValueError(f"{env_id} is no game of ale-py, which alone native=True can step; leave it out")
    for name in settings:
        if name not in _SETTINGS:
            raise ValueError(
                f"native=True takes no env_kwargs {name!r}; {near_matches(name, _SETTINGS)}, or leave native out"
            )
    if settings.pop("frameskip", 1) != 1:
        raise ValueError(
            f"{env_id} skips frames by itself, and frame_skip={frame_skip} would come on top of it; give "
            "env_kwargs={'frameskip': 1}, or the id …NoFrameskip-v4"
        )
    if action_repeat_probability > 0.0:
        settings["repeat_action_probability"] = action_repeat_probability
    max_frames = settings.pop("max_num_frames_per_episode")
    vector_env = AtariVectorEnv(
        game,
        n_envs,
        max_num_frames_per_episode=NO_LIMIT,
        num_threads=min(n_envs, usable_cores()),
        autoreset_mode=AutoresetMode.NEXT_STEP,
        img_height=screen_size,
        img_width=screen_size,
        stack_num=1,
        frameskip=frame_skip,
        maxpool=frame_skip > 1,
        noop_max=noop_max,
        episodic_life=False,
        reward_clipping=False,
        **settings,
    )
    opening = FIRE if _has_fire(vector_env) else NOOP
    return AtariGames(ChannelsLast(vector_env), terminal_on_life_loss, clip_reward, opening, max_frames)


def _has_fire(vector_env: Any) -> bool:
    """Whether FIRE is among the game's actions, in its usual place."""
    names = [str(action).rpartition(".")[2] for action in vector_env.ale.get_action_set()]
    return len(names) > FIRE and names[FIRE] == "FIRE"
