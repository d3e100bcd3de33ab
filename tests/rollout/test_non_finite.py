"""What leaving out broken steps does to a rollout, in hand-computed numbers."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from proximo.errors import NonFiniteError
from proximo.rollout.non_finite import BrokenSteps
from proximo.rollout.storage import RolloutBuffer, estimate_advantages

BOX = spaces.Box(-1, 1, (2,), np.float32)


def four_steps_of_one_env() -> RolloutBuffer:
    buffer = RolloutBuffer(4, BOX, spaces.Discrete(2), gamma=0.5, gae_lambda=1.0, n_envs=1)
    rollout = buffer.rollout
    rollout.observations[:] = 0.5
    rollout.rewards[:, 0] = [1.0, 2.0, 3.0, 4.0]
    rollout.values[:, 0] = [10.0, 20.0, 30.0, 40.0]
    rollout.terminated[:] = rollout.truncated[:] = False
    rollout.bootstrap_values[:] = 0.0
    rollout.last_values[:] = 50.0
    return buffer


def test_a_nan_reward_ends_the_segment_before_it_with_the_value_of_the_last_sound_observation() -> None:
    buffer = four_steps_of_one_env()
    buffer.rollout.rewards[2, 0] = np.nan
    with pytest.warns(UserWarning, match="1 of 4 steps of the rollout, the first of them in environment 0 at step 2"):
        BrokenSteps(4, 1).cut_out(buffer.rollout, buffer.rollout.last_values)
    estimate_advantages(buffer, np.zeros(1, bool))
    assert buffer.rollout.valid is not None
    assert buffer.rollout.valid[:, 0].tolist() == [True, True, False, True]
    # step 1: 2 + 0.5·V(s₂)=15 − 20 = −3; step 0: 1 + 10 − 10 + 0.5·(−3) = −0.5; step 3: 4 + 0.5·50 − 40 = −11
    assert buffer.rollout.advantages[[0, 1, 3], 0].tolist() == [-0.5, -3.0, -11.0]


def test_a_broken_observation_takes_the_step_that_led_to_it_along() -> None:
    buffer = four_steps_of_one_env()
    rollout, broken = buffer.rollout, BrokenSteps(4, 1)
    rollout.observations[2, 0, 1] = np.inf
    for step in range(4):
        broken.blank(step, rollout.observations[step])
    with pytest.warns(UserWarning, match="2 of 4"):
        broken.cut_out(rollout, rollout.last_values)
    assert rollout.valid is not None
    assert rollout.valid[:, 0].tolist() == [True, False, False, True]
    assert rollout.observations[2, 0].tolist() == [0.0, 0.0]
    estimate_advantages(buffer, np.zeros(1, bool))
    assert rollout.advantages[[0, 3], 0].tolist() == [1 + 0.5 * 20 - 10, -11.0]


def test_whole_numbers_beside_a_broken_one_stay() -> None:
    """Zero is none of the values of Discrete(3, start=1), and would be an error in the network."""
    observations = {"speed": np.array([[np.nan], [0.5]], np.float32), "gear": np.array([[3], [1]])}
    broken = BrokenSteps(1, 2)
    broken.blank(0, observations)
    assert broken.observations[0].tolist() == [True, False]
    assert observations["speed"].tolist() == [[0.0], [0.5]]
    assert observations["gear"].tolist() == [[3], [1]]


def test_a_broken_observation_after_an_end_leaves_the_ended_episode_alone() -> None:
    buffer = four_steps_of_one_env()
    rollout, broken = buffer.rollout, BrokenSteps(4, 1)
    rollout.terminated[1, 0] = True
    rollout.observations[2, 0, 0] = np.nan
    for step in range(4):
        broken.blank(step, rollout.observations[step])
    with pytest.warns(UserWarning, match="1 of 4"):
        broken.cut_out(rollout, rollout.last_values)
    assert rollout.valid is not None
    assert rollout.valid[:, 0].tolist() == [True, True, False, True]


def test_a_sound_rollout_is_left_as_it_is() -> None:
    buffer = four_steps_of_one_env()
    BrokenSteps(4, 1).cut_out(buffer.rollout, buffer.rollout.last_values)
    assert buffer.rollout.valid is None


def test_a_rollout_without_one_sound_step_is_an_error() -> None:
    buffer = four_steps_of_one_env()
    buffer.rollout.rewards[:] = np.nan
    with pytest.raises(NonFiniteError, match="every step"):
        BrokenSteps(4, 1).cut_out(buffer.rollout, buffer.rollout.last_values)
