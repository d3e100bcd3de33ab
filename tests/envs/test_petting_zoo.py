"""PettingZoo's environments: agents that come and go, masks, games in turns; the numbers are computed by hand."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install 'proximo[pettingzoo]'")

from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.classic import connect_four_v3, rps_v2, tictactoe_v3
from pettingzoo.test import parallel_api_test

from proximo import PPO, MaskablePPO, RecurrentPPO, evaluate_policy, make_vec_env
from proximo.envs import ParallelEnvAdapter, TurnBasedEnv, VecMonitor, as_vec_env, is_masking_supported
from proximo.training.callbacks import BaseCallback

BOX = spaces.Box(-100.0, 100.0, (2,), np.float32)


class ComingAndGoing(ParallelEnv):
    """Each agent sees [its number, the time]; ``a`` dies at time 2, ``b`` is cut off at time 4, ``c`` is born at 1.

    Rewards are 10 · number + time.
    """

    metadata: ClassVar[Any] = {"name": "coming_and_going"}
    possible_agents: ClassVar[Any] = ["a", "b", "c"]
    render_mode = None

    def observation_space(self, agent: str) -> Any:
        return BOX

    @functools.cache  # noqa: B019
    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def _see(self, agent: str) -> Any:
        return np.array([self.possible_agents.index(agent), self.time], np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.time, self.acted = ["a", "b"], 0, []
        return {agent: self._see(agent) for agent in self.agents}, {agent: {"seed": seed} for agent in self.agents}

    def step(self, actions: Any) -> Any:
        self.acted.append(sorted(actions))
        self.time += 1
        present = [*self.agents, *(["c"] if self.time == 1 else [])]
        ended = {agent: (agent == "a" and self.time == 2) or (agent == "c" and self.time == 4) for agent in present}
        cut = {agent: agent == "b" and self.time == 4 for agent in present}
        self.agents = [agent for agent in present if not (ended[agent] or cut[agent])]
        rewards = {agent: 10.0 * self.possible_agents.index(agent) + self.time for agent in present}
        seen = {agent: self._see(agent) for agent in present}
        return seen, rewards, ended, cut, {agent: {} for agent in present}


def test_agents_that_come_and_go() -> None:
    env = as_vec_env(ComingAndGoing())
    assert isinstance(env, ParallelEnvAdapter)
    assert (env.num_envs, env.agents) == (3, ["a", "b", "c"])
    np.testing.assert_array_equal(env.reset(), [[0, 0], [1, 0], [0, 0]])
    actions = np.zeros(3, int)
    expected = [
        # rewards, terminated, truncated, valid, observations
        ([1, 11, 0], [0, 0, 0], [0, 0, 0], [1, 1, 0], [[0, 1], [1, 1], [2, 1]]),  # c is born and has not acted
        ([2, 12, 22], [1, 0, 0], [0, 0, 0], [1, 1, 1], [[0, 2], [1, 2], [2, 2]]),  # a dies
        ([0, 13, 23], [0, 0, 0], [0, 0, 0], [0, 1, 1], [[0, 2], [1, 3], [2, 3]]),
        ([0, 14, 24], [0, 0, 1], [0, 1, 0], [0, 1, 1], [[0, 0], [1, 0], [2, 4]]),  # nobody is left: a new game
        ([1, 11, 0], [0, 0, 0], [0, 0, 0], [1, 1, 0], [[0, 1], [1, 1], [2, 1]]),
    ]
    for number, (rewards, terminated, truncated, valid, observations) in enumerate(expected):
        step = env.step_arrays(actions)
        np.testing.assert_array_equal(step.rewards, rewards)
        np.testing.assert_array_equal(step.terminated, terminated)
        np.testing.assert_array_equal(step.truncated, truncated)
        np.testing.assert_array_equal(np.ones(3) if step.valid is None else step.valid, valid)
        np.testing.assert_array_equal(step.observations, observations)
        if number == 1:
            assert step.infos[0]["episode"]["r"] == 3.0
            assert step.infos[0]["episode"]["l"] == 2
            assert step.infos[0]["agent"] == "a"
            np.testing.assert_array_equal(step.final_observations[0], [0, 2])
        if number == 3:
            assert {row: (info["episode"]["r"], info["episode"]["l"]) for row, info in step.infos.items()} == {
                1: (50.0, 4),
                2: (69.0, 3),
            }
            assert step.infos[1]["TimeLimit.truncated"]
            assert not step.infos[2]["TimeLimit.truncated"]
            np.testing.assert_array_equal(step.final_observations[1], [1, 4])
            np.testing.assert_array_equal(step.infos[2]["terminal_observation"], [2, 4])
    # the environment heard only those who were there
    assert env.environments[0].acted == [["a", "b"]]


def test_the_four_tuple_tells_the_same() -> None:
    env, other = as_vec_env(ComingAndGoing()), as_vec_env(ComingAndGoing())
    env.reset()
    other.reset()
    for _ in range(5):
        step = env.step_arrays(np.zeros(3, int))
        observations, rewards, dones, infos = other.step(np.zeros(3, int))
        np.testing.assert_array_equal(observations, step.observations)
        np.testing.assert_array_equal(rewards, step.rewards)
        np.testing.assert_array_equal(dones, step.terminated | step.truncated)
        marked = [info.get("VecEnv.autoreset_only", False) for info in infos]
        np.testing.assert_array_equal(marked, np.zeros(3) if step.valid is None else ~step.valid)


class Rollouts(BaseCallback):
    def _on_rollout_end(self) -> None:
        rollout = self.model.rollout_buffer.rollout
        self.valid, self.advantages = rollout.valid.copy(), rollout.advantages.copy()
        self.values, self.bootstrap = rollout.values.copy(), rollout.bootstrap_values.copy()
        self.indices = rollout.training_indices()


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_advantages_and_rows_that_train(backend: str) -> None:
    env = as_vec_env([ComingAndGoing, ComingAndGoing])
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, gamma=0.5, gae_lambda=1.0, seed=0, backend=backend)  # type: ignore[arg-type]
    seen = Rollouts()
    model.learn(48, callback=seen)
    by_hand = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 1, 1]] * 2, bool)
    np.testing.assert_array_equal(seen.valid, np.concatenate([by_hand, by_hand], axis=1))
    assert len(seen.indices) == seen.valid.sum() == 36
    # a: 1 + ½ · 2, then it is dead; the rows after that do not count
    np.testing.assert_allclose(seen.advantages[:2, 0] + seen.values[:2, 0], [2.0, 2.0], rtol=1e-5)
    # b: cut off after four steps, worth V(last observation) from there on
    expected = [11 + 0.5 * (12 + 0.5 * (13 + 0.5 * (14 + 0.5 * seen.bootstrap[3, 1])))]
    np.testing.assert_allclose(seen.advantages[0, 1] + seen.values[0, 1], expected, rtol=1e-5)
    # c: born after the first step, terminated after the fourth
    np.testing.assert_allclose(seen.advantages[1:4, 2] + seen.values[1:4, 2], [22 + 11.5 + 6, 23 + 12, 24], rtol=1e-5)
    lengths = sorted(episode["l"] for episode in model.ep_info_buffer)
    assert lengths == [2] * 4 + [3] * 4 + [4] * 4


def test_other_parts_go_around_it() -> None:
    env = VecMonitor(as_vec_env([ComingAndGoing, ComingAndGoing]))
    model = RecurrentPPO(
        "MlpLstmPolicy", env, n_steps=8, batch_size=16, seed=0, policy_kwargs={"lstm_hidden_size": 8}
    ).learn(96)
    returns, lengths = evaluate_policy(model, env, n_eval_episodes=6, return_episode_rewards=True)
    assert sorted(zip(lengths, returns, strict=True))[0] == (2, 3.0)  # type: ignore[arg-type]


def test_it_is_an_environment_as_petting_zoo_wants_it() -> None:
    parallel_api_test(ComingAndGoing(), num_cycles=20)


class Masked(ComingAndGoing):
    """The mask is in the observation, or in the info."""

    def __init__(self, in_info: bool = False) -> None:
        self.in_info = in_info

    def observation_space(self, agent: str) -> Any:
        return BOX if self.in_info else spaces.Dict(observation=BOX, action_mask=spaces.MultiBinary(2))

    def _mask(self, agent: str) -> Any:
        return np.array([agent == "a", agent != "a"], np.int8)

    def _see(self, agent: str) -> Any:
        seen = super()._see(agent)
        return seen if self.in_info else {"observation": seen, "action_mask": self._mask(agent)}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        seen, _ = super().reset(seed)
        return seen, {agent: {"action_mask": self._mask(agent)} if self.in_info else {} for agent in seen}

    def step(self, actions: Any) -> Any:
        assert all(action == (agent != "a") for agent, action in actions.items())
        *others, infos = super().step(actions)
        return *others, {agent: {"action_mask": self._mask(agent)} if self.in_info else {} for agent in infos}


@pytest.mark.parametrize("in_info", [False, True])
def test_masks(in_info: bool) -> None:
    env = as_vec_env(Masked(in_info))
    assert env.observation_space == BOX
    env.reset()
    np.testing.assert_array_equal(env.action_masks(), [[1, 0], [0, 1], [1, 1]])
    MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=16, seed=0).learn(96)  # its step refuses other actions


def test_no_masks_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no method action_masks\(\)"):
        MaskablePPO("MlpPolicy", as_vec_env(ComingAndGoing()), n_steps=8, batch_size=24).learn(8)


def test_asking_for_masks_leaves_an_episode_alone() -> None:
    game = ComingAndGoing()
    env = as_vec_env(game)
    assert not is_masking_supported(env)  # only observations and infos tell, so it has been reset
    env.reset()
    env.step(np.zeros(3, int))
    assert not is_masking_supported(env)
    assert game.time == 1


class Leaving(ComingAndGoing):
    def step(self, actions: Any) -> Any:
        *answers, infos = super().step(actions)
        self.agents = [agent for agent in self.agents if agent != "b"]
        return *answers, infos


class Unlike(ComingAndGoing):
    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 1, (1 if agent == "a" else 2,))


class Empty(ComingAndGoing):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self.agents = []
        return {}, {}


def test_errors_of_parallel_environments() -> None:
    with pytest.raises(ValueError, match=r"has no agents after reset\(\); let reset"):
        as_vec_env(Empty()).reset()
    with pytest.raises(TypeError, match=r"a PettingZoo environment; got .*into a list: as_vec_env\(\[make\]\)"):
        as_vec_env(rps_v2.parallel_env)
    env = as_vec_env(Leaving())
    env.reset()
    with pytest.raises(ValueError, match=r"agent 'b' .* has left without"):
        env.step(np.zeros(3, int))
    with pytest.raises(ValueError, match="the observation_space differs"):
        as_vec_env(Unlike())
    with pytest.raises(TypeError, match="to as_vec_env"):
        make_vec_env(ComingAndGoing)
    with pytest.raises(TypeError, match="no parallel environment"):
        ParallelEnvAdapter([rps_v2.parallel_env(), rps_v2.env()])
    with pytest.raises(ValueError, match="got no environments"):
        ParallelEnvAdapter([])


def test_agents_that_nobody_knows_beforehand() -> None:
    from pettingzoo.test.example_envs import generated_agents_parallel_v0

    with pytest.raises(ValueError, match=r"names no possible_agents.*give it a list"):
        as_vec_env(generated_agents_parallel_v0.parallel_env())


def test_seeds_reach_the_copies() -> None:
    env = as_vec_env([ComingAndGoing, ComingAndGoing])
    env.seed(7)
    env.reset()
    assert [info.get("seed") for info in env.reset_infos] == [7, 7, None, 10, 10, None]
    env.reset()
    assert env.reset_infos[0]["seed"] is None


def test_a_game_of_petting_zoo() -> None:
    """Rock, paper, scissors: what one gains the other loses."""
    env = as_vec_env(rps_v2.parallel_env(max_cycles=3))
    env.reset()
    rewards = [env.step_arrays(np.array([1, 0])).rewards.tolist() for _ in range(2)]  # paper against rock
    assert rewards == [[1.0, -1.0]] * 2
    step = env.step_arrays(np.array([0, 1]))
    assert step.truncated.all()
    assert [step.infos[row]["episode"]["r"] for row in (0, 1)] == [1.0, -1.0]


# -- games in turns


class Countdown(AECEnv):
    """Three players take 1 or 2 from five stones in turn; who takes the last one wins 2, the others lose 1."""

    metadata: ClassVar[Any] = {"name": "countdown"}
    render_mode = None

    def __init__(self) -> None:
        self.possible_agents = ["x", "y", "z"]

    @functools.cache  # noqa: B019
    def observation_space(self, agent: str) -> Any:
        return spaces.Dict(observation=spaces.Discrete(6), action_mask=spaces.Box(0, 1, (2,), np.int8))

    @functools.cache  # noqa: B019
    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.stones = list(self.possible_agents), 5
        for name, value in (
            ("rewards", 0),
            ("_cumulative_rewards", 0),
            ("terminations", False),
            ("truncations", False),
        ):
            setattr(self, name, dict.fromkeys(self.agents, value))
        self.infos: Any = {agent: {} for agent in self.agents}
        self.agent_selection = "x"

    def observe(self, agent: str) -> Any:
        return {"observation": self.stones, "action_mask": np.array([1, self.stones > 1], np.int8)}

    def step(self, action: Any) -> None:
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        mover = self.agent_selection
        self._cumulative_rewards[mover] = 0
        self._clear_rewards()
        self.stones -= int(action) + 1
        if self.stones == 0:
            self.rewards = {agent: 2 if agent == mover else -1 for agent in self.agents}
            self.terminations = dict.fromkeys(self.agents, True)
        order = self.possible_agents
        self.agent_selection = order[(order.index(mover) + 1) % 3]
        self._accumulate_rewards()


def takes_one(observation: Any, mask: Any, agent: str) -> int:
    assert mask[0]
    return 0


def test_the_others_move_within_a_step() -> None:
    env = TurnBasedEnv(Countdown(), takes_one)
    assert env.observation_space == spaces.Discrete(6)
    observation, _ = env.reset(seed=0)
    assert (env.agent, observation) == ("x", 5)
    observation, reward, terminated, _, _ = env.step(0)  # 4; y and z leave 2
    assert (observation, reward, terminated) == (2, 0.0, False)
    np.testing.assert_array_equal(env.action_masks(), [True, True])
    observation, reward, terminated, truncated, info = env.step(1)
    assert (observation, reward, terminated, truncated, info["agent"]) == (0, 2.0, True, False, "x")
    # the next game is y's: x has taken one before
    observation, _ = env.reset()
    assert (env.agent, observation) == ("y", 4)
    observation, reward, terminated, _, _ = env.step(0)  # 3; z and x leave 1
    assert (observation, terminated) == (1, False)
    np.testing.assert_array_equal(env.action_masks(), [True, False])
    assert env.step(0)[1:3] == (2.0, True)
    # z: x and y leave 3, z takes 1, x and y take the rest
    assert env.reset()[0] == 3
    assert env.agent == "z"
    assert env.step(0)[1:3] == (-1.0, True)


def test_one_seat_only() -> None:
    env = TurnBasedEnv(Countdown(), takes_one, seat="z")
    assert [env.reset()[0] for _ in range(2)] == [3, 3]
    with pytest.raises(ValueError, match="seat is 'w'; known are 'x', 'y', 'z'"):
        TurnBasedEnv(Countdown(), seat="w")
    with pytest.raises(TypeError, match="no environment in turns"):
        TurnBasedEnv(ComingAndGoing())


@pytest.mark.parametrize("game", [Countdown, tictactoe_v3.env, connect_four_v3.env])
def test_games_train_through_as_vec_env(game: Any) -> None:
    env = as_vec_env([game, game])
    model = MaskablePPO("MlpPolicy", env, n_steps=32, batch_size=32, seed=0).learn(64)
    assert model.ep_info_buffer
    assert all(episode["r"] in (-1.0, 0.0, 1.0, 2.0) for episode in model.ep_info_buffer)
    assert as_vec_env(game()).num_envs == 1


def test_a_seed_repeats_a_random_opponent() -> None:
    def play(seed: int) -> list[Any]:
        env = TurnBasedEnv(connect_four_v3.env())
        seen = [env.reset(seed=seed)[0]]
        for _ in range(3):
            seen.append(env.step(int(np.flatnonzero(env.action_masks())[0]))[0])
        return seen

    np.testing.assert_array_equal(play(3), play(3))
    assert any(not np.array_equal(play(3), play(seed)) for seed in range(4, 8))
