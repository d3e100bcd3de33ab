"""MinAtar's five games (Young and Tian 2019, arXiv 1903.03176) as gymnasium environments.

``MinAtar/Breakout-v1`` has the actions that the game knows, ``-v0`` all six. The package registers nothing when it is
imported, and its own environments give truth values with the channels last; these give images of bytes with the
channels first, 0 and 255, as encoders of images read them, tell their state for exact checkpoints, and draw themselves
without further packages. Sticky actions (10 %) and rising difficulty are the package's defaults.
"""

from __future__ import annotations

import colorsys
import logging
from collections.abc import Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

GAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}
PIXELS_PER_CELL = 16
_CONSTANT = ("random", "channels", "action_map")  # attributes of a game that are no part of its state


class MinAtarEnv(gym.Env[Any, Any]):
    """A game of MinAtar: images [channels, 10, 10] of the bytes 0 and 255."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as gymnasium declares it

    def __init__(
        self,
        game: str,
        minimal_actions: bool = True,
        render_mode: str | None = None,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
    ) -> None:
        """Arguments:
        game: Name of the game, such as breakout.
        minimal_actions: Whether only those actions are offered that do something in this game.
        render_mode: rgb_array, or None for no pictures.
        sticky_action_prob: How often the action before is repeated instead.
        difficulty_ramping: Whether the game gets harder with time.
        """
        with _without_advice():
            from minatar import Environment

        self.render_mode = render_mode
        self.game = Environment(game, sticky_action_prob, difficulty_ramping)
        self.actions = self.game.minimal_action_set() if minimal_actions else list(range(self.game.num_actions()))
        self.action_space = spaces.Discrete(len(self.actions))
        height, width, channels = self.game.state_shape()
        self.observation_space = spaces.Box(0, 255, (channels, height, width), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(seed)
        self.game.reset()
        self.game.last_action = 0  # the package keeps it, and a new game would begin with an action of the old
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward, terminated = self.game.act(self.actions[int(action)])
        return self._observation(), float(reward), bool(terminated), False, {}

    def render(self) -> NDArray[np.uint8]:
        """The cells in colours, of several things in a cell the one with the highest channel."""
        cells = self.game.state()
        count = cells.shape[2]
        colours = [(0.0, 0.0, 0.0), *(colorsys.hsv_to_rgb(index / count, 0.7, 1.0) for index in range(count))]
        highest = np.max(cells * np.arange(1, count + 1), axis=2)
        picture = (np.array(colours)[highest] * 255).astype(np.uint8)
        return picture.repeat(PIXELS_PER_CELL, axis=0).repeat(PIXELS_PER_CELL, axis=1)

    def get_state(self) -> dict[str, Any]:
        """The game, its random generator included, as plain values."""
        game = {name: value for name, value in vars(self.game.env).items() if name not in _CONSTANT}
        generator = self.game.random.get_state(legacy=False)
        return {"game": deepcopy(game), "last_action": self.game.last_action, "random": generator}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from such a state."""
        vars(self.game.env).update(deepcopy(dict(state["game"])))
        self.game.last_action = state["last_action"]
        self.game.random.set_state(state["random"])
        self.game.env.random = self.game.random  # one generator for both, as after a seed

    def _observation(self) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self.game.state().transpose(2, 0, 1)).astype(np.uint8) * np.uint8(255)


@contextmanager
def _without_advice() -> Iterator[None]:
    """The package warns, whoever imports it, that without seaborn it cannot open a window."""
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(previous)


def register() -> None:
    """Make the games known to gymnasium, as MinAtar/Breakout-v1 and so on."""
    for name, game in GAMES.items():
        for version, minimal in (("v0", False), ("v1", True)):
            env_id = f"MinAtar/{name}-{version}"
            if env_id not in gym.registry:
                gym.register(
                    env_id,
                    entry_point=f"{__name__}:{MinAtarEnv.__name__}",
                    kwargs={"game": game, "minimal_actions": minimal},
                )


register()
