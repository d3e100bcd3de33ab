"""What the collector writes into a rollout, counted by hand with a policy that is no network at all."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from scripted_envs import Masked, Scripted

from proximo.data import Array, Observation, Rollout
from proximo.envs import DummyVecEnv, as_vec_env
from proximo.rollout.collector import Collector
from proximo.rollout.masks import MaskReader
from proximo.rollout.storage import RolloutBuffer, estimate_advantages

LENGTHS = [[3], [-2]]  # environment 0 ends by termination after 3 steps, environment 1 by a limit after 2


class Puppet:
    """Values that tell who asked: 1 while acting, 10 + environment for a cut episode, 20 + environment at the end."""

    def __init__(self) -> None:
        self.states = None
        self.started: list[tuple[int, int]] = []
        self.asked: list[tuple[Any, Any]] = []
        self.masks: list[Any] = []

    def start_rollout(self, steps: int, environments: int) -> None:
        self.started.append((steps, environments))

    def act(self, observations: Observation, rollout: Rollout, step: int) -> Array:
        if rollout.action_masks is not None:
            self.masks.append(rollout.action_masks[step].copy())
            actions = np.argmax(rollout.action_masks[step], axis=1)  # the first that is allowed
        else:
            actions = np.zeros(rollout.environments, np.int64)
        rollout.values[step], rollout.log_probs[step], rollout.actions[step, :, 0] = 1.0, -1.0, actions
        return actions

    def values(self, observations: Any, environments: Any = None, episode_starts: Any = None) -> Array:
        asked = None if environments is None else environments.tolist()
        self.asked.append((asked, None if episode_starts is None else episode_starts.tolist()))
        if environments is not None:
            assert observations.shape == (len(environments), 3)
            assert (observations[:, 0] * 3).round().tolist() == asked  # their own last observations, not another's
            assert (observations[:, 2] * 3).round().tolist() == [2] * len(asked)  # the last, not the first of the next
            return 10.0 + environments.astype(np.float32)
        return 20.0 + np.arange(len(observations), dtype=np.float32)


class Listener:
    def __init__(self, stop_at: int | None = None, wants_locals: bool = False) -> None:
        self.stop_at, self.locals, self.steps = stop_at, wants_locals, 0
        self.seen: list[dict[str, Any]] = []

    def wants_steps(self) -> bool:
        return self.stop_at is not None or self.locals

    def wants_locals(self) -> bool:
        return self.locals

    def on_step(self, environments: int, local_variables: dict[str, Any] | None) -> bool:
        self.steps += 1
        if local_variables is not None:
            self.seen.append(local_variables)
        return self.steps != self.stop_at


def make(kind: type[Scripted] = Scripted, steps: int = 5, env: Any = None) -> tuple[Collector, RolloutBuffer, Puppet]:
    env = env or DummyVecEnv([lambda i=i, each=each: kind(i, each) for i, each in enumerate(LENGTHS)])
    buffer = RolloutBuffer(steps, env.observation_space, env.action_space, "cpu", gae_lambda=1.0, gamma=0.5, n_envs=2)
    return Collector(env, deque(maxlen=10), deque(maxlen=10)), buffer, Puppet()


@pytest.mark.parametrize("wants_locals", [False, True])
def test_two_environments_for_five_steps(wants_locals: bool) -> None:
    collector, buffer, puppet = make()
    listener = Listener(wants_locals=wants_locals)
    assert collector.collect(puppet, buffer, listener, {"note": 1})
    rollout = buffer.rollout
    estimate_advantages(buffer, collector.episode_starts)
    assert rollout.rewards.T.tolist() == [[1, 2, 3, 1, 2], [1, 2, 1, 2, 1]]
    assert rollout.episode_starts.T.tolist() == [
        [True, False, False, True, False],
        [True, False, True, False, True],
    ]
    assert rollout.terminated.T.tolist() == [[False, False, True, False, False], [False] * 5]
    assert rollout.truncated.T.tolist() == [[False] * 5, [False, True, False, True, False]]
    assert rollout.bootstrap_values.T.tolist() == [[0.0] * 5, [0.0, 11.0, 0.0, 11.0, 0.0]]
    assert rollout.last_values.tolist() == [20.0, 21.0]
    # returns with γ = ½: environment 0 ends at step 2 with nothing after it; environment 1 is cut, and 11 comes after
    assert rollout.returns[:3, 0].tolist() == [1 + 0.5 * (2 + 0.5 * 3), 2 + 0.5 * 3, 3]
    assert rollout.returns[3:, 0].tolist() == [1 + 0.5 * (2 + 0.5 * 20), 2 + 0.5 * 20]
    assert rollout.returns[:2, 1].tolist() == [1 + 0.5 * (2 + 0.5 * 11), 2 + 0.5 * 11]
    assert rollout.returns[4, 1] == 1 + 0.5 * 21
    np.testing.assert_allclose(rollout.advantages, rollout.returns - 1.0)
    assert puppet.asked == [([1], None), ([1], None), (None, [False, False])]
    assert puppet.started == [(5, 2)]
    assert len(listener.seen) == (5 if wants_locals else 0)
    if wants_locals:
        assert listener.seen[1]["dones"].tolist() == [False, True]
        assert listener.seen[1]["note"] == 1
        assert listener.seen[1]["values"].flatten().tolist() == [1.0, 1.0]


def test_the_next_rollout_goes_on() -> None:
    """Environment 1 opened an episode at the last step; the observation it left is the first of the next rollout."""
    collector, buffer, puppet = make()
    for _ in range(2):
        collector.collect(puppet, buffer, Listener(), {})
    rollout = buffer.rollout
    assert rollout.episode_starts.T.tolist() == [
        [False, True, False, False, True],
        [False, True, False, True, False],
    ]
    assert (3 * rollout.observations[0]).round().tolist() == [[0, 1, 2], [1, 2, 1]]
    assert puppet.asked[-1] == (None, [False, True])


def test_episodes_cut_at_the_same_step_are_valued_in_one_call() -> None:
    env = DummyVecEnv([lambda i=i, each=each: Scripted(i, each) for i, each in enumerate([[-2], [3], [-2]])])
    buffer = RolloutBuffer(3, env.observation_space, env.action_space, "cpu", gae_lambda=1.0, gamma=0.5, n_envs=3)
    collector, puppet = Collector(env, deque(), deque()), Puppet()
    collector.collect(puppet, buffer, Listener(), {})
    assert puppet.asked[0] == ([0, 2], None)
    assert len(puppet.asked) == 2  # and the last observations
    assert buffer.rollout.bootstrap_values[1].tolist() == [10.0, 0.0, 12.0]


def test_a_listener_ends_it() -> None:
    collector, buffer, puppet = make()
    assert not collector.collect(puppet, buffer, Listener(stop_at=3), {})
    assert not buffer.full
    assert puppet.asked == [([1], None)]


def test_masks_are_read_before_the_action() -> None:
    """The masks of step t are those of the environment as it stands, episode after episode."""
    collector, buffer, puppet = make(Masked)
    collector.reset()
    collector.masks = MaskReader(collector.env)
    assert collector.collect(puppet, buffer, Listener(), {})
    # forbidden is (step + episode + environment) mod 3
    assert np.argmin(buffer.rollout.action_masks[:, 0], axis=1).tolist() == [0, 1, 2, 1, 2]
    assert np.argmin(buffer.rollout.action_masks[:, 1], axis=1).tolist() == [1, 2, 2, 0, 0]
    np.testing.assert_array_equal(puppet.masks, buffer.rollout.action_masks)
    taken = [env.unwrapped.taken for env in collector.env.envs]
    assert taken == [[1, 0, 0, 0, 0], [0, 0, 0, 1, 1]]
    buffer.reset()
    assert buffer.rollout.action_masks is None


def test_rows_that_only_reset() -> None:
    """gymnasium's NEXT_STEP: the row after an end is not valid, and the episode starts after it."""
    makers = [lambda i=i, each=each: Scripted(i, each) for i, each in enumerate(LENGTHS)]
    env = as_vec_env(SyncVectorEnv(makers, autoreset_mode=AutoresetMode.NEXT_STEP))
    collector, buffer, puppet = make(steps=7, env=env)
    collector.collect(puppet, buffer, Listener(), {})
    estimate_advantages(buffer, collector.episode_starts)
    rollout = buffer.rollout
    assert rollout.valid.T.tolist() == [
        [True, True, True, False, True, True, True],
        [True, True, False, True, True, False, True],
    ]
    assert rollout.episode_starts.T.tolist() == [
        [True, False, False, True, True, False, False],
        [True, False, True, True, False, True, True],
    ]
    assert rollout.bootstrap_values[:, 1].tolist() == [0, 11, 0, 0, 11, 0, 0]
    assert rollout.returns[1, 1] == 2 + 0.5 * 11
    assert rollout.returns[4, 0] == 1 + 0.5 * (2 + 0.5 * 3)
    assert rollout.sample_indices().tolist() == [0, 1, 2, 3, 4, 7, 8, 9, 10, 12, 13]


def test_episodes_are_counted_where_they_end() -> None:
    collector, _, _ = make()
    infos = {0: {"episode": {"r": 1.0}, "is_success": True}, 1: {"is_success": True}}
    collector.count_episodes(infos, np.array([True, False]))
    assert list(collector.episode_infos) == [{"r": 1.0}]
    assert list(collector.episode_successes) == [True]
