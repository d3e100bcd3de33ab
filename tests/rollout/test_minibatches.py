"""A rollout cut into minibatches, with numbers counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo.data import Minibatch, RNNStates, Rollout
from proximo.rollout.minibatches import (
    epoch_minibatches,
    keep_valid,
    minibatches,
    on_device,
    sequence_minibatches,
    take,
)
from proximo.rollout.storage import RolloutBuffer, allocate_rollout

CPU = torch.device("cpu")
STEPS, ENVIRONMENTS = 4, 3


def make_rollout(length: int = 0) -> Rollout:
    """Observation and value of step t in environment e are 10·t + e."""
    rollout = allocate_rollout(STEPS, ENVIRONMENTS, spaces.Box(-100.0, 100.0, (1,), np.float32), spaces.Discrete(2))
    numbers = 10.0 * np.arange(STEPS)[:, None] + np.arange(ENVIRONMENTS)
    rollout.observations[..., 0] = numbers
    rollout.values[:], rollout.log_probs[:] = numbers, -numbers
    rollout.advantages[:], rollout.returns[:] = numbers + 0.5, numbers + 0.25
    rollout.actions[..., 0] = numbers % 2
    rollout.action_masks = np.stack([numbers % 2 == 0, np.ones_like(numbers, bool)], axis=2)
    rollout.sequence_length = length
    if length:
        # one layer, one number: 100 · chunk + environment; and a second part with the sign turned
        chunks = np.arange(STEPS // length)
        part = torch.tensor(100.0 * chunks[:, None, None, None] + np.arange(ENVIRONMENTS)[:, None])
        rollout.states = RNNStates((part,), (-part,))
    return rollout


def numbers_of(batch: Minibatch) -> list[float]:
    return batch.observations.flatten().tolist()


def test_rows_in_the_given_order() -> None:
    rollout = make_rollout()
    whole = on_device(rollout, CPU)
    order = torch.tensor([11, 0, 4, 7, 3])
    batches = list(minibatches(whole, order, 2))
    # row 11 is step 3 of environment 2, row 4 step 1 of environment 1, row 7 step 2 of environment 1
    assert [numbers_of(batch) for batch in batches] == [[32.0, 0.0], [11.0, 21.0], [10.0]]
    assert batches[1].old_values.tolist() == [11.0, 21.0]
    assert batches[1].old_log_prob.tolist() == [-11.0, -21.0]
    assert batches[1].advantages.tolist() == [11.5, 21.5]
    assert batches[1].returns.tolist() == [11.25, 21.25]
    assert batches[1].actions.tolist() == [[1], [1]]
    assert batches[1].action_masks.tolist() == [[False, True], [False, True]]
    assert batches[0].episode_starts is None
    assert batches[0].lstm_states is None


def test_sequences_of_two_steps() -> None:
    """Sequence 1 is environment 1 from the start, sequence 3 environment 0 and sequence 5 environment 2 from step 2."""
    rollout = make_rollout(length=2)
    rollout.episode_starts[3, 0] = rollout.episode_starts[0, 1] = True
    whole = on_device(rollout, CPU)
    first, second = sequence_minibatches(whole, rollout, torch.tensor([3, 1, 5]), batch_size=4)
    assert numbers_of(first) == [20.0, 30.0, 1.0, 11.0]
    assert numbers_of(second) == [22.0, 32.0]
    assert first.episode_starts.tolist() == [False, True, True, False]
    assert [part.flatten().tolist() for part in first.lstm_states.parts()] == [[100.0, 1.0], [-100.0, -1.0]]
    assert [part.flatten().tolist() for part in second.lstm_states.parts()] == [[102.0], [-102.0]]
    assert first.lstm_states.pi[0].shape == (1, 2, 1)
    assert first.action_masks.tolist() == [[True, True], [True, True], [False, True], [False, True]]


@pytest.mark.parametrize(("length", "batch_size", "sizes"), [(4, 4, [4, 4, 4]), (4, 8, [8, 4]), (2, 3, [2] * 6),
                                                            (4, 1, [4, 4, 4]), (1, 5, [5, 5, 2])])  # fmt: skip
def test_as_many_whole_sequences_as_fit(length: int, batch_size: int, sizes: list[int]) -> None:
    """A batch smaller than a sequence still holds one; every row comes once."""
    rollout = make_rollout(length)
    order = torch.as_tensor(np.random.default_rng(0).permutation(rollout.training_indices()))
    batches = list(epoch_minibatches(on_device(rollout, CPU), rollout, order, batch_size))
    assert [len(batch.actions) for batch in batches] == sizes
    seen = sorted(number for batch in batches for number in numbers_of(batch))
    assert seen == sorted(rollout.values.flatten().tolist())


def test_states_of_several_layers() -> None:
    """[sequence, layer, env, hidden] → [layer, sequence, hidden] of the chosen sequences."""
    rollout = make_rollout(length=2)
    states = torch.arange(2.0 * 2 * ENVIRONMENTS * 3).reshape(2, 2, ENVIRONMENTS, 3)
    rollout.states = RNNStates((states,), ())
    (batch,) = sequence_minibatches(on_device(rollout, CPU), rollout, torch.tensor([4, 2]), 4)
    assert batch.lstm_states.pi[0][:, 0].equal(states[1, :, 1])
    assert batch.lstm_states.pi[0][:, 1].equal(states[0, :, 2])
    assert batch.lstm_states.vf == ()


def test_rows_that_train() -> None:
    rollout = make_rollout(length=4)
    rollout.valid = np.ones((STEPS, ENVIRONMENTS), bool)
    rollout.valid[1, 0] = rollout.valid[3, 2] = False
    assert rollout.sample_indices().tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]
    (batch,) = sequence_minibatches(on_device(rollout, CPU), rollout, torch.arange(3), 12)
    assert batch.valid.tolist() == [True, False, True, True, True, True, True, True, True, True, True, False]
    assert batch.mask.tolist() == batch.valid.float().tolist()
    kept = keep_valid(batch)
    assert numbers_of(kept) == [0.0, 20.0, 30.0, 1.0, 11.0, 21.0, 31.0, 2.0, 12.0, 22.0]
    assert kept.lstm_states is batch.lstm_states  # they belong to sequences, not to rows
    rollout.valid[:] = True
    (batch,) = sequence_minibatches(on_device(rollout, CPU), rollout, torch.arange(3), 12)
    assert keep_valid(batch) is batch


def test_dictionaries_and_images_keep_their_rows() -> None:
    space = spaces.Dict(image=spaces.Box(0, 255, (1, 4, 5), np.uint8), number=spaces.Discrete(50))
    rollout = allocate_rollout(STEPS, ENVIRONMENTS, space, spaces.Discrete(2))
    numbers = (10 * np.arange(STEPS)[:, None] + np.arange(ENVIRONMENTS)).astype(np.uint8)
    rollout.observations["image"][:] = numbers[:, :, None, None, None]
    rollout.observations["number"][..., 0] = numbers
    batch = take(on_device(rollout, CPU), torch.tensor([11, 3]))
    assert batch.observations["number"].flatten().tolist() == [32, 10]
    assert batch.observations["image"].shape == (2, 1, 4, 5)
    assert batch.observations["image"][:, 0, 2, 3].tolist() == [32, 10]


@pytest.mark.parametrize("length", [0, 2])
def test_buffer_gives_rows_or_sequences(length: int) -> None:
    """``get`` of a buffer, which subclasses call, knows policies with memory too."""
    buffer = RolloutBuffer(STEPS, spaces.Box(-100.0, 100.0, (1,), np.float32), spaces.Discrete(2), n_envs=ENVIRONMENTS)
    buffer.rollout = make_rollout(length)
    with pytest.raises(ValueError, match="0 of 4 steps"):
        next(buffer.get(4))
    buffer.full = True
    np.random.seed(0)
    batches = list(buffer.get(4))
    assert [len(batch.actions) for batch in batches] == [4, 4, 4]
    for batch in batches:
        assert (batch.lstm_states is not None) is bool(length)
        if length:
            numbers: list[Any] = numbers_of(batch)
            assert [b - a for a, b in zip(numbers[::2], numbers[1::2], strict=True)] == [10.0, 10.0]
    (everything,) = buffer.get()
    assert len(everything.actions) == 12
