"""Memory: whole sequences equal a plain loop over the steps; states reset exactly at episode starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from proximo.data import RNNStates
from proximo.networks.recurrent import (
    GruActorCriticPolicy,
    GruMultiInputActorCriticPolicy,
    RecurrentActorCriticPolicy,
    cut_at_starts,
    forget,
    run_sequences,
    step_memory,
)

VECTOR = spaces.Box(-1.0, 1.0, (3,), np.float32)
CHOICE = spaces.Discrete(3)
CELLS = {"lstm": nn.LSTM, "gru": nn.GRU}


def state_of(layer: Any, columns: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    parts = 2 if isinstance(layer, nn.LSTM) else 1
    shape = (layer.num_layers, columns, layer.hidden_size)
    return tuple(torch.randn(shape, generator=generator) for _ in range(parts))


def plain_loop(layer: Any, inputs: torch.Tensor, state: tuple[torch.Tensor, ...], starts: torch.Tensor) -> torch.Tensor:
    """[sequence, time, …] one step and one sequence at a time, with fresh zeros at each start."""
    outputs = torch.zeros(*inputs.shape[:2], layer.hidden_size)
    for sequence in range(len(inputs)):
        memory = [part[:, sequence : sequence + 1] for part in state]
        for time in range(inputs.shape[1]):
            if starts[sequence, time]:
                memory = [torch.zeros_like(part) for part in memory]
            given_state = tuple(memory) if len(memory) == 2 else memory[0]
            output, after = layer(inputs[sequence, time].view(1, 1, -1), given_state)
            memory = list(after) if len(memory) == 2 else [after]
            outputs[sequence, time] = output[0, 0]
    return outputs


sequence_shapes = st.tuples(st.integers(1, 4), st.integers(1, 9))


@given(
    shape=sequence_shapes,
    layers=st.integers(1, 2),
    cell=st.sampled_from(sorted(CELLS)),
    density=st.sampled_from([0.0, 0.2, 0.6, 1.0]),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=60)
def test_sequences_equal_a_plain_loop(
    shape: tuple[int, int], layers: int, cell: str, density: float, seed: int
) -> None:
    """Outputs, and the gradients of weights, inputs and first states."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    layer = CELLS[cell](3, 4, num_layers=layers)
    sequences, time = shape
    inputs = torch.randn(sequences, time, 3, generator=generator, requires_grad=True)
    starts = torch.rand(sequences, time, generator=generator) < density
    state = tuple(part.requires_grad_() for part in state_of(layer, sequences, generator))
    weight = torch.randn(sequences, time, 4, generator=generator)
    outputs = run_sequences(layer, inputs.flatten(0, 1), state, starts.flatten()).view(sequences, time, 4)
    expected = plain_loop(layer, inputs, state, starts)
    torch.testing.assert_close(outputs, expected, atol=1e-5, rtol=1e-5)
    leaves = [inputs, *state, *layer.parameters()]
    mine = torch.autograd.grad((outputs * weight).sum(), leaves, allow_unused=True)
    theirs = torch.autograd.grad((expected * weight).sum(), leaves, allow_unused=True)
    for found, wanted in zip(mine, theirs, strict=True):
        zero = torch.zeros(())
        torch.testing.assert_close(
            zero if found is None else found, zero.expand_as(found) if wanted is None else wanted, atol=1e-4, rtol=1e-4
        )


@given(shape=sequence_shapes, density=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 2**16))
def test_cutting_places_every_step_once(shape: tuple[int, int], density: float, seed: int) -> None:
    """Pieces are numbered without gaps, steps of a piece follow each other, and no piece crosses a start."""
    sequences, time = shape
    starts = torch.rand(time, sequences, generator=torch.Generator().manual_seed(seed)) < density
    pieces = cut_at_starts(starts)
    places = set(zip(pieces.piece.flatten().tolist(), pieces.position.flatten().tolist(), strict=True))
    assert len(places) == time * sequences
    assert {piece for piece, _ in places} == set(range(pieces.total))
    assert pieces.longest == 1 + max(position for _, position in places)
    for sequence in range(sequences):
        assert pieces.piece[0, sequence] == pieces.first[sequence]
        for step in range(1, time):
            same = pieces.piece[step, sequence] == pieces.piece[step - 1, sequence]
            assert bool(same) is not bool(starts[step, sequence])
            assert pieces.position[step, sequence] == (pieces.position[step - 1, sequence] + 1 if same else 0)


def test_forget_clears_only_those_who_start() -> None:
    state = (torch.ones(2, 3, 4), torch.full((2, 3, 4), 5.0))
    hidden, cell = forget(state, torch.tensor([True, False, True]))
    assert hidden[:, 1].eq(1.0).all()
    assert cell[:, 1].eq(5.0).all()
    assert not hidden[:, [0, 2]].any()
    assert not cell[:, [0, 2]].any()


def test_a_step_wants_one_observation_per_memory() -> None:
    layer = nn.LSTM(3, 4)
    state = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)
    for rows, starts in ((5, 5), (4, 2)):
        message = f"{rows} observations with {starts} episode starts for the memory of 2 environments"
        with pytest.raises(ValueError, match=message):
            step_memory(layer, torch.zeros(rows, 3), state, torch.zeros(starts))


def test_several_steps_are_those_of_whole_sequences() -> None:
    torch.manual_seed(0)
    layer, features = nn.LSTM(3, 4), torch.randn(2 * 5, 3)
    state, starts = (torch.randn(1, 2, 4), torch.randn(1, 2, 4)), (torch.rand(10) < 0.3).float()
    outputs, last = step_memory(layer, features, state, starts)
    torch.testing.assert_close(outputs, run_sequences(layer, features, state, starts))
    torch.testing.assert_close(outputs.reshape(2, 5, 4)[:, -1], last[0][0])


POLICIES: dict[str, tuple[type[RecurrentActorCriticPolicy], spaces.Space[Any], dict[str, Any]]] = {
    "lstm": (RecurrentActorCriticPolicy, VECTOR, {}),
    "gru": (GruActorCriticPolicy, VECTOR, {}),
    "gru, two layers": (GruActorCriticPolicy, VECTOR, {"n_lstm_layers": 2}),
    "gru, shared": (GruActorCriticPolicy, VECTOR, {"shared_lstm": True, "enable_critic_lstm": False}),
    "gru, value without memory": (GruActorCriticPolicy, VECTOR, {"enable_critic_lstm": False}),
    "gru, dict": (GruMultiInputActorCriticPolicy, spaces.Dict(a=VECTOR, b=spaces.Discrete(2)), {}),
}


def make_policy(name: str) -> RecurrentActorCriticPolicy:
    kind, space, arguments = POLICIES[name]
    torch.manual_seed(0)
    policy = kind(space, CHOICE, lstm_hidden_size=6, **arguments)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return policy


@pytest.mark.parametrize("name", POLICIES)
def test_policy_step_by_step_equals_whole_sequences(name: str) -> None:
    """``forward`` along the steps and ``evaluate_actions`` over the sequences tell the same story."""
    policy = make_policy(name)
    sequences, time = 3, 8
    policy.observation_space.seed(0)
    samples = [[policy.observation_space.sample() for _ in range(time)] for _ in range(sequences)]

    def tensors(rows: list[Any]) -> Any:
        if isinstance(rows[0], dict):
            return {key: torch.as_tensor(np.stack([row[key] for row in rows])) for key in rows[0]}
        return torch.as_tensor(np.stack(rows))

    starts = torch.rand(sequences, time, generator=torch.Generator().manual_seed(1)) < 0.3
    states = policy.initial_states(sequences)
    states = states.map(torch.randn_like)
    begin = states = RNNStates(states.pi, states.pi) if policy.shared_lstm else states
    stepped: list[list[torch.Tensor]] = []
    with torch.no_grad():
        for step in range(time):
            rows = tensors([samples[sequence][step] for sequence in range(sequences)])
            values = policy.predict_values(rows, states.vf, starts[:, step])
            *outputs, states = policy(rows, states, starts[:, step])
            torch.testing.assert_close(values, outputs[1], atol=1e-6, rtol=1e-6)
            stepped.append(outputs)
        actions, values, log_probs = (torch.stack(part, dim=1).flatten(0, 1) for part in zip(*stepped, strict=True))
        everything = tensors([row for rows in samples for row in rows])
        found = policy.evaluate_actions(everything, actions, begin, starts.flatten())
    torch.testing.assert_close(found[0], values, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[1], log_probs, atol=1e-5, rtol=1e-5)
    assert values.std() > 1e-3


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_predict_remembers_until_an_episode_starts(name: str) -> None:
    policy = make_policy(name)
    observations = np.random.default_rng(0).uniform(-1, 1, (5, 2, 3)).astype(np.float32)
    state = None
    for observation in observations[:4]:
        _, state = policy.predict(observation, state, deterministic=True)
    _, carried = policy.predict(observations[4], state, np.array([False, True]), deterministic=True)
    _, fresh = policy.predict(observations[4], None, deterministic=True)
    for kept, empty in zip(carried, fresh, strict=True):
        np.testing.assert_allclose(kept[:, 1], empty[:, 1], atol=1e-6)
        assert np.abs(kept[:, 0] - empty[:, 0]).max() > 1e-3
    # one observation alone is a batch of one
    action, alone = policy.predict(observations[4][1], None, deterministic=True)
    assert action.shape == ()
    np.testing.assert_allclose(alone[0], fresh[0][:, 1:], atol=1e-6)


BAD = {
    "both memories": ({"shared_lstm": True}, ["shared_lstm", "enable_critic_lstm=False"]),
    "shared over two extractors": (
        {"shared_lstm": True, "enable_critic_lstm": False, "share_features_extractor": False},
        ["shared_lstm=True needs share_features_extractor=True"],
    ),
}


@pytest.mark.parametrize(("arguments", "pieces"), BAD.values(), ids=BAD)
def test_combinations_that_make_no_sense(arguments: dict[str, Any], pieces: list[str]) -> None:
    with pytest.raises(ValueError, match=".*".join(pieces)):
        RecurrentActorCriticPolicy(VECTOR, CHOICE, **arguments)


def test_policy_file_keeps_the_memory(tmp_path: Any) -> None:
    policy = make_policy("gru, two layers")
    policy.save(tmp_path / "policy.zip")
    loaded = GruActorCriticPolicy.load(tmp_path / "policy.zip")
    observation = np.ones((2, 3), np.float32)
    action, state = policy.predict(observation, deterministic=True)
    again, other = loaded.predict(observation, deterministic=True)
    assert np.array_equal(action, again)
    assert np.array_equal(state[0], other[0])
    assert state[0].shape == (2, 2, 6)
