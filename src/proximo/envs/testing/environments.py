"""Small environments for tests: imitation games of every space, fake images, and probes whose values are known.

A probe isolates one ability of a learner; what it must learn is in the docstring as a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from proximo.data import Array, Info
from proximo.errors import ArgumentValueError
from proximo.functional.spaces import Space

__all__ = [
    "ActionMattersEnv",
    "BitFlippingEnv",
    "ConstantRewardEnv",
    "DelayedRewardEnv",
    "EndlessEnv",
    "FakeImageEnv",
    "HideVelocity",
    "IdentityEnv",
    "IdentityEnvBox",
    "IdentityEnvMultiBinary",
    "IdentityEnvMultiDiscrete",
    "InvalidActionEnvDiscrete",
    "InvalidActionEnvMultiBinary",
    "InvalidActionEnvMultiDiscrete",
    "MatchObservationEnv",
    "SimpleMultiObsEnv",
]

T = TypeVar("T", int, Array)
Step = tuple[Any, float, bool, bool, Info]


class IdentityEnv(gym.Env[Any, Any], Generic[T]):
    """Reward 1 for the action that equals the observation, else 0; truncated after ``ep_length`` steps."""

    def __init__(self, dim: int | None = None, space: Space | None = None, ep_length: int = 100) -> None:
        """Arguments:
        dim: Number of actions; not with space.
        space: A space for observations and actions alike; not with dim.
        ep_length: Steps after which an episode is truncated.
        """
        if dim is not None and space is not None:
            raise ArgumentValueError(f"pass dim or space, not both; got dim={dim} and space={space}")
        self.action_space = self.observation_space = spaces.Discrete(dim or 1) if space is None else space
        self.ep_length = ep_length
        self.num_resets = -1  # 0 after the reset below
        self.state: Any
        self.reset()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        if seed is not None:
            self.action_space.seed(seed)
        self.current_step = 0
        self.num_resets += 1
        self._choose_next_state()
        return self.state, {}

    def step(self, action: Any) -> Step:
        reward = self._get_reward(action)
        self._choose_next_state()
        self.current_step += 1
        return self.state, reward, False, self.current_step >= self.ep_length, {}

    def _choose_next_state(self) -> None:
        self.state = self.action_space.sample()

    def _get_reward(self, action: Any) -> float:
        return float(np.all(self.state == action))

    def render(self, mode: str = "human") -> None:
        pass


class IdentityEnvBox(IdentityEnv[Array]):
    """Identity with one number, to be met within ``eps``."""

    def __init__(self, low: float = -1.0, high: float = 1.0, eps: float = 0.05, ep_length: int = 100) -> None:
        """Arguments:
        low: Lower bound of the number.
        high: Upper bound of the number.
        eps: How near an action must come.
        ep_length: Steps after which an episode is truncated.
        """
        super().__init__(space=spaces.Box(low, high, (1,), dtype=np.float32), ep_length=ep_length)
        self.eps = eps

    def _get_reward(self, action: Any) -> float:
        return float(np.all(np.abs(self.state - action) <= self.eps))


class IdentityEnvMultiDiscrete(IdentityEnv[Array]):
    """Identity with two choices of ``dim`` each."""

    def __init__(self, dim: int = 1, ep_length: int = 100) -> None:
        """Arguments:
        dim: Actions of each of the two choices.
        ep_length: Steps after which an episode is truncated.
        """
        super().__init__(space=spaces.MultiDiscrete([dim, dim]), ep_length=ep_length)


class IdentityEnvMultiBinary(IdentityEnv[Array]):
    """Identity with ``dim`` bits."""

    def __init__(self, dim: int = 1, ep_length: int = 100) -> None:
        """Arguments:
        dim: Number of bits.
        ep_length: Steps after which an episode is truncated.
        """
        super().__init__(space=spaces.MultiBinary(dim), ep_length=ep_length)


class _MaskedIdentityEnv(IdentityEnv[Any]):
    """Identity where each step forbids ``n_invalid_actions`` entries of the action mask, never the right ones.

    Entries of the mask: those of all choices side by side, ``choices[i]`` for choice ``i``.
    """

    def __init__(self, space: Space, choices: Sequence[int], ep_length: int, n_invalid_actions: int) -> None:
        if n_invalid_actions > sum(choices) - len(choices):
            raise ValueError(
                f"n_invalid_actions is {n_invalid_actions}, but of {sum(choices)} actions one of each choice must stay "
                f"valid: at most {sum(choices) - len(choices)} can be invalid"
            )
        self.n_invalid_actions = n_invalid_actions
        self.possible_actions = np.arange(sum(choices))
        self._offsets = np.cumsum([0, *choices[:-1]])
        super().__init__(space=space, ep_length=ep_length)

    def _choose_next_state(self) -> None:
        super()._choose_next_state()
        wrong = np.ones(len(self.possible_actions), np.bool_)
        wrong[self._offsets + self.state] = False
        order = self.np_random.permutation(self.possible_actions[wrong])
        self.invalid_actions: list[int] = order[: self.n_invalid_actions].tolist()
        self._mask = np.ones(len(self.possible_actions), np.bool_)
        self._mask[order[: self.n_invalid_actions]] = False

    def action_masks(self) -> Array:
        return self._mask


class InvalidActionEnvDiscrete(_MaskedIdentityEnv):
    """One choice of ``dim`` actions, of which ``n_invalid_actions`` wrong ones are forbidden at every step."""

    def __init__(self, dim: int | None = None, ep_length: int = 100, n_invalid_actions: int = 0) -> None:
        """Arguments:
        dim: Number of actions.
        ep_length: Steps after which an episode is truncated.
        n_invalid_actions: Wrong actions that the mask forbids at each step.
        """
        size = 1 if dim is None else dim
        super().__init__(spaces.Discrete(size), [size], ep_length, n_invalid_actions)


class InvalidActionEnvMultiDiscrete(_MaskedIdentityEnv):
    """Choices of ``dims`` actions each."""

    def __init__(self, dims: list[int] | None = None, ep_length: int = 100, n_invalid_actions: int = 0) -> None:
        """Arguments:
        dims: Actions of each choice.
        ep_length: Steps after which an episode is truncated.
        n_invalid_actions: Wrong actions that the mask forbids at each step.
        """
        sizes = [1, 1] if dims is None else list(dims)
        super().__init__(spaces.MultiDiscrete(sizes), sizes, ep_length, n_invalid_actions)


class InvalidActionEnvMultiBinary(_MaskedIdentityEnv):
    """``dims`` switches, each of which may be off, on, or both."""

    def __init__(self, dims: int | None = None, ep_length: int = 100, n_invalid_actions: int = 0) -> None:
        """Arguments:
        dims: Number of switches.
        ep_length: Steps after which an episode is truncated.
        n_invalid_actions: Wrong positions that the mask forbids at each step.
        """
        count = 1 if dims is None else dims
        super().__init__(spaces.MultiBinary(count), [2] * count, ep_length, n_invalid_actions)


class HideVelocity(gym.ObservationWrapper[Any, Any, Any]):
    """CartPole shown without its two velocities: to balance the pole, a policy must remember where it was.

    >>> HideVelocity(gym.make("CartPole-v1")).reset(seed=0)[0].shape
    (2,)
    """

    def __init__(self, env: gym.Env[Any, Any], kept: Sequence[int] = (0, 2)) -> None:
        """``kept``: the entries of the observation that stay, for CartPole the position and the angle.

        Arguments:
            env: CartPole, or another environment whose observation is a vector.
            kept: Indices of the numbers that stay visible.
        """
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise ValueError(f"HideVelocity hides entries of a vector, this environment shows {space}")
        self._kept = list(kept)
        self.observation_space = spaces.Box(space.low[self._kept], space.high[self._kept], dtype=space.dtype.type)

    def observation(self, observation: Array) -> Array:
        return observation[self._kept]


class FakeImageEnv(gym.Env[Any, Any]):
    """Random images in the shape of Atari's, no reward, truncated after ten steps."""

    def __init__(
        self,
        action_dim: int = 6,
        screen_height: int = 84,
        screen_width: int = 84,
        n_channels: int = 1,
        discrete: bool = True,
        channel_first: bool = False,
    ) -> None:
        """Arguments:
        action_dim: Number of actions, or width of an action.
        screen_height: Height of the images.
        screen_width: Width of the images.
        n_channels: Channels of the images.
        discrete: Whether actions are Discrete; otherwise a Box.
        channel_first: Whether images have their channels first.
        """
        size = (screen_height, screen_width)
        self.observation_shape = (n_channels, *size) if channel_first else (*size, n_channels)
        self.observation_space = spaces.Box(0, 255, self.observation_shape, dtype=np.uint8)
        self.action_space = spaces.Discrete(action_dim) if discrete else spaces.Box(-1.0, 1.0, (5,), dtype=np.float32)
        self.ep_length = 10
        self.current_step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.current_step = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Step:
        self.current_step += 1
        return self.observation_space.sample(), 0.0, False, self.current_step >= self.ep_length, {}

    def render(self, mode: str = "human") -> None:
        pass


class BitFlippingEnv(gym.Env[Any, Any]):
    """Flip ``n_bits`` bits until all are one: reward 0 there, −1 before; a goal environment (Andrychowicz et al. 2017).

    An action names one bit, or, if ``continuous``, flips every bit whose component is positive. Observations are bits,
    their number (``discrete_obs_space``), or an image with a white pixel per set bit (``image_obs_space``).
    """

    spec = EnvSpec("BitFlippingEnv-v0", "no-entry-point")

    def __init__(
        self,
        n_bits: int = 10,
        continuous: bool = False,
        max_steps: int | None = None,
        discrete_obs_space: bool = False,
        image_obs_space: bool = False,
        channel_first: bool = True,
        render_mode: str = "human",
    ) -> None:
        """Arguments:
        n_bits: Number of bits.
        continuous: Whether an action is a vector that flips the bits whose component is positive.
        max_steps: Steps after which an episode is truncated; None is n_bits.
        discrete_obs_space: Whether observations are one number.
        image_obs_space: Whether observations are images.
        channel_first: Whether images have their channels first.
        render_mode: Taken for gymnasium's sake; nothing is drawn.
        """
        if discrete_obs_space and image_obs_space:
            raise ValueError("observations are either discrete or images; set one of the two")
        self.render_mode = render_mode
        self.continuous = continuous
        self.discrete_obs_space = discrete_obs_space
        self.image_obs_space = image_obs_space
        self.image_shape = (1, 36, 36) if channel_first else (36, 36, 1)
        self.max_steps = max_steps or n_bits
        self.current_step = 0
        part: Space = spaces.MultiBinary(n_bits)
        if discrete_obs_space:
            part = spaces.Discrete(2**n_bits)
        elif image_obs_space:
            part = spaces.Box(0, 255, self.image_shape, dtype=np.uint8)
        self.observation_space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), part))
        self.action_space = (
            spaces.Box(-1.0, 1.0, (n_bits,), dtype=np.float32) if continuous else spaces.Discrete(n_bits)
        )
        self._bits = spaces.MultiBinary(n_bits)
        self.state = np.zeros(n_bits, np.int8)
        self.desired_goal = np.ones(n_bits, np.int8)

    def seed(self, seed: int) -> None:
        """Seed the goal and the first state."""
        self._bits.seed(seed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Info]:
        if seed is not None:
            self._bits.seed(seed)
        self.current_step = 0
        self.state = self._bits.sample()
        return self._get_obs(), {}

    def step(self, action: Any) -> Step:
        flipped = np.asarray(action) > 0 if self.continuous else action
        self.state[flipped] = 1 - self.state[flipped]
        self.current_step += 1
        observation = self._get_obs()
        reward = float(self.compute_reward(observation["achieved_goal"], observation["desired_goal"], None).item())
        success = reward == 0
        return observation, reward, success, self.current_step >= self.max_steps, {"is_success": success}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, _info: Any) -> Array:
        """0 where the goal is achieved, −1 elsewhere; for one pair of goals or a batch of them."""
        missed = self.convert_to_bit_vector(achieved_goal) != self.convert_to_bit_vector(desired_goal)
        return -missed.any(axis=-1).astype(np.float32)

    def convert_if_needed(self, state: Array) -> Any:
        """Bits in the form of the observation space."""
        if self.discrete_obs_space:
            return int(state @ (1 << np.arange(len(state))))
        if self.image_obs_space:
            image = np.zeros(int(np.prod(self.image_shape)), np.uint8)
            image[: len(state)] = state * np.uint8(255)
            return image.reshape(self.image_shape)
        return state

    def convert_to_bit_vector(self, state: Any, batch_size: int | None = None) -> Array:
        """Bits [batch, bit] of observations."""
        bits, values = len(self.state), np.asarray(state)
        if self.discrete_obs_space:
            return values.reshape(-1, 1) >> np.arange(bits) & 1
        if self.image_obs_space:
            return values.reshape(-1, int(np.prod(self.image_shape)))[:, :bits] // 255
        return values.reshape(-1, bits)

    def _get_obs(self) -> dict[str, Any]:
        achieved = self.convert_if_needed(self.state.copy())
        desired = self.convert_if_needed(self.desired_goal.copy())
        return {"observation": achieved, "achieved_goal": achieved, "desired_goal": desired}

    def render(self) -> Array | None:
        return self.state.copy() if self.render_mode == "rgb_array" else None


class SimpleMultiObsEnv(gym.Env[Any, Any]):
    """Walk around the edge of a grid of 4 × 4 from cell 0 to cell 15; the four inner cells are walls.

    Each column is shown as a random vector, each row as a random image. Reward 1 at the goal, −0.1 per step before;
    truncated after 100 steps. Actions: left, down, right, up.
    """

    LEFT, DOWN, RIGHT, UP = range(4)

    def __init__(
        self,
        num_col: int = 4,
        num_row: int = 4,
        random_start: bool = True,
        discrete_actions: bool = True,
        channel_last: bool = True,
    ) -> None:
        """Arguments:
        num_col: Columns of the grid; 4 is the only number that works.
        num_row: Rows of the grid; 4 is the only number that works.
        random_start: Whether an episode starts in any free cell instead of the first.
        discrete_actions: Whether an action is one of four; otherwise a vector whose largest component counts.
        channel_last: Whether images have their channels last.
        """
        self.vector_size = 5
        self.img_size = (64, 64, 1) if channel_last else (1, 64, 64)
        self.random_start = random_start
        self.discrete_actions = discrete_actions
        self.num_col, self.num_row = num_col, num_row
        self.action_space = spaces.Discrete(4) if discrete_actions else spaces.Box(0.0, 1.0, (4,))
        self.observation_space = spaces.Dict(
            {
                "vec": spaces.Box(0.0, 1.0, (self.vector_size,), dtype=np.float64),
                "img": spaces.Box(0, 255, self.img_size, dtype=np.uint8),
            }
        )
        self.count, self.max_count = 0, 100
        self.state = 0
        self.log = ""
        self.init_possible_transitions()
        self.init_state_mapping(num_col, num_row)
        self.max_state = len(self.state_mapping) - 1

    def init_state_mapping(self, num_col: int, num_row: int) -> None:
        """Draw the vector of each column and the image of each row."""
        columns = np.random.random((num_col, self.vector_size))  # noqa: NPY002, seeded like the rest of a script
        rows = np.random.randint(0, 255, (num_row, *self.img_size), dtype=np.uint8)  # noqa: NPY002
        self.state_mapping = [{"vec": vector, "img": image} for vector in columns for image in rows]

    def init_possible_transitions(self) -> None:
        """The cells from which each direction is open."""
        self.left_possible = [1, 2, 3, 13, 14, 15]
        self.down_possible = [0, 4, 8, 3, 7, 11]
        self.right_possible = [0, 1, 2, 12, 13, 14]
        self.up_possible = [4, 8, 12, 7, 11, 15]

    def get_state_mapping(self) -> dict[str, Array]:
        """The observation of the cell where it is."""
        return self.state_mapping[self.state]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Array], Info]:
        super().reset(seed=seed)
        self.count = 0
        self.state = int(np.random.randint(0, self.max_state)) if self.random_start else 0  # noqa: NPY002
        return self.get_state_mapping(), {}

    def step(self, action: Any) -> Step:
        direction = int(action) if self.discrete_actions else int(np.argmax(action))
        moves = {
            self.LEFT: (self.left_possible, -1),
            self.DOWN: (self.down_possible, self.num_col),
            self.RIGHT: (self.right_possible, 1),
            self.UP: (self.up_possible, -self.num_col),
        }
        open_cells, offset = moves[direction]
        previous = self.state
        if self.state in open_cells:
            self.state += offset
        self.count += 1
        at_goal = self.state == self.max_state
        self.log = f"went {('left', 'down', 'right', 'up')[direction]} from cell {previous} to cell {self.state}"
        reward = 1.0 if at_goal else -0.1
        return self.get_state_mapping(), reward, at_goal, self.count > self.max_count, {"got_to_end": at_goal}

    def render(self, mode: str = "human") -> None:
        print(self.log)  # noqa: T201, the environment's way to show itself


class _Probe(gym.Env[Any, Any]):
    """One-number observations and two actions."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), dtype=np.float32)
    action_space = spaces.Discrete(2)

    def _observe(self, value: float) -> Array:
        return np.array([value], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        super().reset(seed=seed)
        return self._start(), {}

    def _start(self) -> Array:
        return self._observe(0.0)


class ConstantRewardEnv(_Probe):
    """One step, reward 1: the value of observation 0 must become 1."""

    def step(self, action: Any) -> Step:
        return self._observe(0.0), 1.0, True, False, {}


class DelayedRewardEnv(_Probe):
    """Observation 0, then 1; reward 1 only at the end: V(1) must become 1 and V(0) = γ."""

    def _start(self) -> Array:
        self._second = False
        return self._observe(0.0)

    def step(self, action: Any) -> Step:
        if self._second:
            return self._observe(0.0), 1.0, True, False, {}
        self._second = True
        return self._observe(1.0), 0.0, False, False, {}


class ActionMattersEnv(_Probe):
    """One step; action 1 earns 1 and action 0 loses 1: the policy must choose 1, and the value become 1."""

    def step(self, action: Any) -> Step:
        return self._observe(0.0), 1.0 if action == 1 else -1.0, True, False, {}


class MatchObservationEnv(_Probe):
    """One step; observation −1 wants action 0 and observation 1 wants action 1: reward 1 for it, else −1."""

    def _start(self) -> Array:
        self._wanted = int(self.np_random.integers(2))
        return self._observe(2.0 * self._wanted - 1.0)

    def step(self, action: Any) -> Step:
        return self._observe(0.0), 1.0 if action == self._wanted else -1.0, True, False, {}


class EndlessEnv(_Probe):
    """Reward 1 for ever, cut by a time limit every ``limit`` steps: bootstrapped, the value becomes 1 / (1 − γ)."""

    def __init__(self, limit: int = 5) -> None:
        """Arguments:
        limit: Steps between two truncations.
        """
        self.limit = limit
        self._steps = 0

    def _start(self) -> Array:
        self._steps = 0
        return self._observe(0.0)

    def step(self, action: Any) -> Step:
        self._steps += 1
        return self._observe(0.0), 1.0, False, self._steps >= self.limit, {}
