"""PettingZoo's environments of several agents, whose agents share one policy.

A parallel environment becomes a row for each of its possible agents (:class:`ParallelEnvAdapter`). One in turns (AEC)
becomes an environment of one agent whose other seats somebody else plays (:class:`TurnBasedEnv`). Both are recognised
by their shape, so that PettingZoo is never imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proximo.data import Array, Info, Observation, StepArrays, observation_rows, write_observation
from proximo.envs.state.capture import no_state
from proximo.envs.vector.dummy import StepBuffers
from proximo.envs.vector.vec_env import AUTORESET_KEY, VecEnv, VecEnvIndices, VecEnvStepReturn, copy_observation
from proximo.envs.vector.vec_monitor import EpisodeTotals
from proximo.envs.wrappers.action_masker import EXPECTED_METHOD_NAME
from proximo.errors import ArgumentValueError, near_matches
from proximo.functional.actions import mask_groups, mask_rows
from proximo.functional.spaces import ObservationFlattener, Space

MASK = "action_mask"
# (observation without its mask, mask or None, name of the agent) → action
Opponent: TypeAlias = Callable[[Any, Array | None, str], Any]


def is_petting_zoo(env: Any) -> bool:
    """Whether something is an environment of PettingZoo's, parallel or in turns."""
    if isinstance(env, type | gym.Env):
        return False
    return callable(getattr(env, "observation_space", None)) and callable(getattr(env, "action_space", None))


def possible_agents(env: Any) -> list[str]:
    """Everybody who may ever play: each needs a row from the start."""
    if not getattr(env, "possible_agents", None):
        raise ArgumentValueError(
            f"{env} names no possible_agents, so nobody knows how many rows it takes; give it a list of all agents "
            "that may ever come"
        )
    return list(env.possible_agents)


def is_turn_based(env: Any) -> bool:
    """Whether it is one of PettingZoo\'s games in turns (AEC)."""
    return hasattr(env, "agent_iter") and hasattr(env, "last")


def shared_spaces(env: Any, agents: Sequence[str]) -> tuple[Space, Space]:
    """The observation space, without its mask, and the action space of agents that share a policy."""
    for name in ("observation_space", "action_space"):
        found = {agent: getattr(env, name)(agent) for agent in agents}
        if any(space != found[agents[0]] for space in found.values()):
            raise ArgumentValueError(
                f"agents that share a policy have the same spaces, but the {name} differs: {found}; pad them "
                "(SuperSuit's pad_observations_v0 and pad_action_space_v0), or train some of them with seat=…"
            )
    return _without_mask_space(env.observation_space(agents[0])), env.action_space(agents[0])


def _without_mask_space(space: Space) -> Space:
    if not isinstance(space, spaces.Dict) or MASK not in space.spaces:
        return space
    others = {key: part for key, part in space.spaces.items() if key != MASK}
    return others["observation"] if list(others) == ["observation"] else spaces.Dict(others)


def split_mask(observation: Any, info: Info) -> tuple[Any, Array | None]:
    """An observation without the mask that may be in it, and the mask, or the one of the info."""
    if not isinstance(observation, dict) or MASK not in observation:
        return observation, info.get(MASK)
    others = {key: part for key, part in observation.items() if key != MASK}
    return (others["observation"] if list(others) == ["observation"] else others), observation[MASK]


class ParallelEnvAdapter(VecEnv):
    """Parallel environments of PettingZoo as a vector environment: row ``copy * agents + agent``.

    An agent that is not there, dead or not yet born, has a row all the same, which does not train: ``valid`` is False,
    the action is ignored, the observation is the last one seen. When the last agent of a copy has gone, it is reset.
    """

    def __init__(self, environments: Sequence[Any]) -> None:
        """Arguments:
        environments: Copies of one parallel environment; each has a row for every possible agent.
        """
        if not environments:
            raise ValueError("got no environments; pass at least one")
        self.environments = list(environments)
        self.agents: list[str] = possible_agents(self.environments[0])
        for env in self.environments:
            if not is_petting_zoo(env) or is_turn_based(env):
                raise TypeError(f"{env!r} is no parallel environment of PettingZoo; all in the list must be")
            if list(env.possible_agents) != self.agents:
                raise ArgumentValueError(f"the copies have other agents: {env.possible_agents} and {self.agents}")
        observation_space, action_space = shared_spaces(self.environments[0], self.agents)
        self._flat = ObservationFlattener(observation_space)
        super().__init__(len(self.environments) * len(self.agents), self._flat.space, action_space)
        self._buffers = StepBuffers.allocate(self._flat.space, self.num_envs)
        for row in range(self.num_envs):
            self._show(row, _blank(self._flat.space))
        self._totals = EpisodeTotals(self.num_envs)
        self._masks: Array | None = None  # [row, entry]; None until an observation or an info has one
        self._was_reset = False
        self.actions: Any = None

    def _rows(self, copy: int) -> dict[str, int]:
        first = copy * len(self.agents)
        return {agent: first + index for index, agent in enumerate(self.agents)}

    # -- stepping

    def reset(self) -> Observation:
        for copy in range(len(self.environments)):
            self._reset_copy(copy, self._seeds[copy * len(self.agents)], self._options[copy * len(self.agents)])
        self._reset_seeds()
        self._reset_options()
        self._totals.clear()
        self._was_reset = True
        return copy_observation(self._buffers.observations)

    def _reset_copy(self, copy: int, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        env = self.environments[copy]
        observations, infos = env.reset(seed=seed, options=options or None)
        if not env.agents:  # nobody would ever act, and no row train
            raise ValueError(
                f"{env} has no agents after reset(); let reset() set agents to those who play from the start"
            )
        for agent, row in self._rows(copy).items():
            self.reset_infos[row] = infos.get(agent, {})
            if agent in observations:
                self._see(row, observations[agent], infos.get(agent, {}))

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        step = self.step_arrays(self.actions)
        infos: list[Info] = [step.infos.get(row, {"TimeLimit.truncated": False}) for row in range(self.num_envs)]
        if step.valid is not None:
            for row in np.flatnonzero(~step.valid).tolist():
                infos[row][AUTORESET_KEY] = True
        return copy_observation(step.observations), step.rewards, step.terminated | step.truncated, infos

    def step_arrays(self, actions: Any) -> StepArrays:
        rewards = np.zeros(self.num_envs, np.float32)
        terminated, truncated, valid = (np.zeros(self.num_envs, bool) for _ in range(3))
        finals: dict[int, Observation] = {}
        infos: dict[int, Info] = {}
        for copy, env in enumerate(self.environments):
            rows = self._rows(copy)
            acting = list(env.agents)
            observations, gains, ends, cuts, told = env.step({agent: actions[rows[agent]] for agent in acting})
            for agent in acting:
                row, over = rows[agent], bool(ends.get(agent, False) or cuts.get(agent, False))
                if not over and agent not in env.agents:
                    raise ValueError(
                        f"agent {agent!r} of {env} has left without a termination or truncation of its own; let step() "
                        "return one of them for it"
                    )
                valid[row] = True
                rewards[row] = gains.get(agent, 0.0)
                terminated[row] = bool(ends.get(agent, False))
                truncated[row] = over and not terminated[row]
                if over:
                    finals[row] = self._final(row, observations, agent)
                    infos[row] = {**told.get(agent, {}), "agent": agent}
            for agent in env.agents:
                self._see(rows[agent], observations[agent], told.get(agent, {}))
            if not env.agents:
                self._reset_copy(copy)
        self._totals.add(rewards, valid)
        for row, info in infos.items():
            info |= {"episode": self._totals.take(row), "TimeLimit.truncated": bool(truncated[row])}
            info["terminal_observation"] = finals[row]
        everyone = None if valid.all() else valid
        return StepArrays(self._buffers.observations, rewards, terminated, truncated, finals, infos, everyone)

    def _final(self, row: int, observations: Any, agent: str) -> Observation:
        """What an agent saw last: some environments show the dead nothing more."""
        if agent in observations:
            self._show(row, self._flat(split_mask(observations[agent], {})[0]))
        return copy_observation(observation_rows(self._buffers.observations, row))

    def _see(self, row: int, observation: Any, info: Info) -> None:
        shown, mask = split_mask(observation, info)
        self._show(row, self._flat(shown))
        if mask is not None:
            if self._masks is None:
                self._masks = np.ones((self.num_envs, sum(mask_groups(self.action_space))), bool)
            self._masks[row] = np.asarray(mask, bool).reshape(-1)

    def _show(self, row: int, observation: Any) -> None:
        write_observation(self._buffers.observations, row, observation)

    def action_masks(self) -> Array:
        if self._masks is None:
            raise AttributeError("neither observations nor infos of the agents have an 'action_mask'")
        return mask_rows(self._masks, self.action_space)

    # -- what a vector environment is asked about its environments

    def has_attr(self, attr_name: str) -> bool:
        if attr_name != EXPECTED_METHOD_NAME:
            return super().has_attr(attr_name)
        if not self._was_reset:
            self.reset()  # to see its observations and infos; the reset that follows begins again
        return self._masks is not None

    def close(self) -> None:
        for env in self.environments:
            env.close()

    def get_images(self) -> Sequence[Array | None]:
        """One image per copy."""
        return [env.render() for env in self.environments]

    def _copies(self, indices: VecEnvIndices) -> Iterable[Any]:
        return (self.environments[row // len(self.agents)] for row in self._get_indices(indices))

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        if attr_name == "render_mode":
            return [getattr(env, attr_name, None) for env in self._copies(indices)]
        return [getattr(env, attr_name) for env in self._copies(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        for env in self._copies(indices):
            setattr(env, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Called once for each copy that has one of the rows."""
        answers: dict[int, Any] = {}
        for env in self._copies(indices):
            if id(env) not in answers:
                answers[id(env)] = getattr(env, method_name)(*method_args, **method_kwargs)
        return [answers[id(env)] for env in self._copies(indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        return [False for _ in self._get_indices(indices)]  # gymnasium's wrappers do not go around these

    def environment_states(self) -> list[Any]:
        raise no_state(self.environments[0])


def _blank(space: Space) -> Any:
    """Something of a space, for agents of whom nothing was seen yet."""
    match space:
        case spaces.Box():
            return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
        case spaces.Discrete() | spaces.MultiDiscrete():
            return space.start
        case spaces.Dict():
            return {key: _blank(part) for key, part in space.spaces.items()}
    return np.zeros(space.shape or (), space.dtype)


class TurnBasedEnv(gym.Env[Any, Any]):
    """A game in turns (AEC) as an environment of one agent: the others move within ``step``.

    ``opponent`` is a function of what the agent to move sees, its mask (or None) and its name; None moves at random.
    It may be replaced at any time: a player's past self, say. ``seat`` names the agent that is played; None takes the
    seats in turn, one per episode, and needs equal spaces. A reward is what the seat gained since its last move.
    ``action_masks()`` tells the allowed moves.
    """

    def __init__(self, env: Any, opponent: Opponent | None = None, seat: str | None = None) -> None:
        """Arguments:
        env: The game, an AEC environment.
        opponent: A function of observation, mask and name that moves for the others; None moves at random.
        seat: Whom to play; None plays the seats in turn, one per episode.
        """
        if not (is_petting_zoo(env) and is_turn_based(env)):
            raise TypeError(f"{env!r} is no environment in turns (AEC) of PettingZoo; give parallel ones to as_vec_env")
        agents = possible_agents(env)
        if seat is not None and seat not in agents:
            raise ArgumentValueError(f"seat is {seat!r}; {near_matches(seat, agents)}")
        self.env, self.seats, self.opponent = env, agents if seat is None else [seat], opponent
        self.observation_space, self.action_space = shared_spaces(env, self.seats)
        self.metadata, self.render_mode = env.metadata, getattr(env, "render_mode", None)
        self.agent = self.seats[0]
        self._games = 0
        self._mask: Array | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self.agent = self.seats[self._games % len(self.seats)]
        self._games += 1
        self.env.reset(seed=seed if seed is not None else int(self.np_random.integers(2**31)), options=options)
        observation, _, terminated, truncated, info = self._until_own_turn()
        if terminated or truncated:
            raise ValueError(f"the game {self.env} was over before {self.agent!r} could move; choose another seat")
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self.env.step(action)
        return self._until_own_turn()

    def _until_own_turn(self) -> tuple[Any, float, bool, bool, Info]:
        """Let the others move until it is the seat's turn, or its game is over."""
        while True:
            agent = self.env.agent_selection
            found, reward, terminated, truncated, info = self.env.last()
            observation, mask = split_mask(found, info)
            if agent == self.agent:
                self._mask = mask
                over = {"agent": agent} if terminated or truncated else {}
                return (
                    observation,
                    float(reward),
                    bool(terminated),
                    bool(truncated and not terminated),
                    {**info, **over},
                )
            self.env.step(None if terminated or truncated else self._move(observation, mask, agent))

    def _move(self, observation: Any, mask: Array | None, agent: str) -> Any:
        if self.opponent is not None:
            return self.opponent(observation, mask, agent)
        space = self.env.action_space(agent)
        if mask is not None and isinstance(space, spaces.Discrete):
            return int(space.start + self.np_random.choice(np.flatnonzero(mask)))
        space.seed(int(self.np_random.integers(2**31)))
        return space.sample() if mask is None else space.sample(mask)

    def action_masks(self) -> Array:
        """What the seat may do now; everything at the end of a game."""
        if self._mask is None:
            raise AttributeError(f"neither observations nor infos of {self.env} have an 'action_mask'")
        mask = np.asarray(self._mask, bool).reshape(-1)
        return mask if mask.any() else np.ones_like(mask)

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()
