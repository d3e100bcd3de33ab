"""Distributions over hybrid actions are the sum of their parts."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from action_spaces import discrete_spaces, hybrid_spaces
from proximo.functional.actions import leaves, mask_groups, restore_structure
from proximo.functional.spaces import get_action_dim
from proximo.networks.distributions import (
    DiagGaussianDistribution,
    HybridDistribution,
    kl_divergence,
    make_proba_distribution,
)

ROWS = 4


def with_parameters(space: Any, seed: int) -> tuple[HybridDistribution, torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    distribution = make_proba_distribution(space)
    assert isinstance(distribution, HybridDistribution)
    layer, log_std = distribution.proba_distribution_net(6, log_std_init=-0.5)
    assert layer.out_features == distribution.parameter_width
    parameters = torch.randn(ROWS, distribution.parameter_width)
    log_std = torch.randn_like(log_std)
    return distribution.proba_distribution(parameters, log_std), parameters, log_std


def parts_by_hand(space: Any, parameters: torch.Tensor, log_std: torch.Tensor) -> list[Any]:
    """Each leaf with a distribution of its own, given its columns of the parameters."""
    parts, column, deviation = [], 0, 0
    for leaf in leaves(space):
        part: Any = make_proba_distribution(leaf)
        piece = parameters[:, column : column + part.parameter_width]
        column += part.parameter_width
        if isinstance(leaf, spaces.Box):
            width = get_action_dim(leaf)
            part.proba_distribution(piece, log_std[deviation : deviation + width])
            deviation += width
        else:
            part.proba_distribution(piece)
        parts.append(part)
    assert (column, deviation) == (parameters.shape[1], len(log_std))
    return parts


@given(space=hybrid_spaces, seed=st.integers(0, 1000))
@settings(max_examples=60)
def test_log_probs_and_entropies_add_up(space: Any, seed: int) -> None:
    distribution, parameters, log_std = with_parameters(space, seed)
    parts = parts_by_hand(space, parameters, log_std)
    for actions in (distribution.sample(), distribution.mode()):
        assert actions.shape == (ROWS, get_action_dim(space))
        assert actions.dtype == torch.float32
        log_prob, column = torch.zeros(ROWS), 0
        for leaf, part in zip(leaves(space), parts, strict=True):
            width = get_action_dim(leaf)
            log_prob = log_prob + part.log_prob(actions[:, column : column + width])
            column += width
        torch.testing.assert_close(distribution.log_prob(actions), log_prob, atol=1e-5, rtol=1e-5)
        assert all(space.contains(action) for action in restore_structure(space, actions.numpy()))
    entropy = torch.stack([part.entropy() for part in parts]).sum(dim=0)
    torch.testing.assert_close(distribution.entropy(), entropy, atol=1e-5, rtol=1e-5)


@given(space=hybrid_spaces, seed=st.integers(0, 1000))
@settings(max_examples=60)
def test_masks_reach_the_discrete_parts(space: Any, seed: int) -> None:
    groups = mask_groups(space)
    distribution, parameters, log_std = with_parameters(space, seed)
    assert distribution.mask_width == sum(groups)
    if not groups:
        return
    random = np.random.default_rng(seed)
    columns = []
    for size in groups:
        group = random.random((ROWS, size)) < 0.4
        group[np.arange(ROWS), random.integers(size, size=ROWS)] = True
        columns.append(group)
    masks = torch.as_tensor(np.concatenate(columns, axis=1))
    distribution.apply_masking(masks)
    parts = parts_by_hand(space, parameters, log_std)
    position = 0
    for part in parts:
        if part.mask_width:
            part.apply_masking(masks[:, position : position + part.mask_width])
            position += part.mask_width
    entropy = torch.stack([part.entropy() for part in parts]).sum(dim=0)
    torch.testing.assert_close(distribution.entropy(), entropy, atol=1e-5, rtol=1e-5)
    for _ in range(5):
        actions = distribution.sample()
        assert torch.isfinite(distribution.log_prob(actions)).all()
        assert (distribution.log_prob(actions) > -1e4).all()
        _assert_allowed(space, actions, columns)


def _assert_allowed(space: Any, actions: torch.Tensor, masks: list[np.ndarray]) -> None:
    column, group = 0, 0
    for leaf in leaves(space):
        for _ in range(get_action_dim(leaf)):
            if not isinstance(leaf, spaces.Box):
                chosen = actions[:, column].long().numpy()
                assert masks[group][np.arange(ROWS), chosen].all()
                group += 1
            column += 1


@given(space=hybrid_spaces, seed=st.integers(0, 1000))
@settings(max_examples=40)
def test_divergences_add_up(space: Any, seed: int) -> None:
    first, parameters, log_std = with_parameters(space, seed)
    second, others, other_std = with_parameters(space, seed + 1)
    expected = torch.zeros(ROWS)
    pairs = zip(parts_by_hand(space, parameters, log_std), parts_by_hand(space, others, other_std), strict=True)
    for one, other in pairs:
        divergence = kl_divergence(one, other)
        expected = expected + (divergence.sum(dim=1) if divergence.dim() > 1 else divergence)
    torch.testing.assert_close(kl_divergence(first, second), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(kl_divergence(first, copy.deepcopy(first)), torch.zeros(ROWS), atol=1e-6, rtol=0)


def test_by_hand() -> None:
    """A fair choice of four, a standard normal, and a switch that is off with 3/4."""
    space = spaces.Tuple([spaces.Discrete(4), spaces.Box(-9.0, 9.0, (1,)), spaces.MultiBinary(1)])
    distribution = make_proba_distribution(space)
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.5, float(np.log(1 / 3))]])
    distribution.proba_distribution(logits, torch.zeros(1))
    normal = -0.5 * np.log(2 * np.pi) - 0.5 * 1.5**2
    found = distribution.log_prob(torch.tensor([[3.0, 2.0, 0.0]]))
    assert float(found) == pytest.approx(np.log(0.25) + normal + np.log(0.75), abs=1e-6)
    switch = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    entropy = np.log(4) + 0.5 * np.log(2 * np.pi * np.e) + switch
    assert float(distribution.entropy()) == pytest.approx(entropy, abs=1e-6)
    distribution.apply_masking(torch.tensor([[1, 0, 0, 1, 1, 0]]).bool())
    found = distribution.log_prob(torch.tensor([[3.0, 2.0, 0.0]]))
    assert float(found) == pytest.approx(np.log(0.5) + normal, abs=1e-6)


@pytest.mark.parametrize("form", [np.array, list, torch.tensor])
def test_masks_of_one_row_need_no_batch_axis(form: Any) -> None:
    space = spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1.0, 1.0, (1,)), c=spaces.MultiBinary(1))
    distribution = make_proba_distribution(space)
    distribution.proba_distribution(torch.tensor([[0.0, 1.0, 2.0, 0.5, 3.0]]), torch.zeros(1))
    distribution.apply_masking(form([True, True, False, True, False]))
    assert distribution.mode().tolist() == [[1.0, 0.5, 0.0]]
    distribution.apply_masking(None)
    assert distribution.mode().tolist() == [[2.0, 0.5, 1.0]]


def test_masks_go_where_the_logits_are() -> None:
    distribution = make_proba_distribution(spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1.0, 1.0, (1,))))
    distribution.proba_distribution(torch.zeros(2, 4, device="meta"), torch.zeros(1, device="meta"))
    distribution.apply_masking(np.ones((2, 3), bool))
    assert distribution.log_prob(torch.zeros(2, 2, device="meta")).device.type == "meta"


def test_continuous_parts_alone_have_no_masks() -> None:
    distribution = make_proba_distribution(spaces.Dict(a=spaces.Box(-1.0, 1.0, (2,))))
    distribution.proba_distribution(torch.zeros(1, 2), torch.zeros(2))
    with pytest.raises(ValueError, match="no discrete choices"):
        distribution.apply_masking(np.ones((1, 2), bool))


@given(space=discrete_spaces, seed=st.integers(0, 100))
@settings(max_examples=20)
def test_without_any_continuous_part(space: Any, seed: int) -> None:
    distribution, _, log_std = with_parameters(space, seed)
    assert log_std.shape == (0,)
    assert not any(isinstance(part, DiagGaussianDistribution) for part in distribution.parts)
    assert torch.isfinite(distribution.log_prob(distribution.sample())).all()


def test_samples_follow_the_parts() -> None:
    torch.manual_seed(0)
    space = spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(-9.0, 9.0, (1,)))
    distribution = make_proba_distribution(space)
    parameters = torch.tensor([[float(np.log(0.2)), float(np.log(0.8)), 1.5]]).repeat(20_000, 1)
    actions = distribution.proba_distribution(parameters, torch.tensor([float(np.log(0.5))])).sample()
    assert float(actions[:, 0].mean()) == pytest.approx(0.8, abs=0.015)
    assert float(actions[:, 1].mean()) == pytest.approx(1.5, abs=0.02)
    assert float(actions[:, 1].std()) == pytest.approx(0.5, abs=0.02)
    assert float(-distribution.log_prob(actions).mean()) == pytest.approx(float(distribution.entropy()[0]), abs=0.03)
