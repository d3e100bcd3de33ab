"""Novelty by hand: nearest neighbours, soft counts, elliptical bonuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from proximo.functional.novelty import elliptical_bonus, episodic_distances, nearest_neighbour_novelty, soft_counts

close = torch.testing.assert_close


def test_nearest_neighbours_by_hand() -> None:
    """States 0, 1, 3 and 7 on a line, one environment; the second neighbours are 3, 3, 3 and 6 away."""
    states = torch.tensor([0.0, 1.0, 3.0, 7.0])[:, None, None]
    close(nearest_neighbour_novelty(states, states, k=1), torch.log1p(torch.tensor([[1.0], [1.0], [2.0], [4.0]])))
    close(nearest_neighbour_novelty(states, states, k=2), torch.log1p(torch.tensor([[3.0], [2.0], [3.0], [6.0]])))
    both = 0.5 * (torch.log1p(torch.tensor([1.0, 1.0, 2.0, 4.0])) + torch.log1p(torch.tensor([3.0, 2.0, 3.0, 6.0])))
    close(nearest_neighbour_novelty(states, states, k=2, average=True), both[:, None])


def test_environments_are_no_neighbours_of_each_other() -> None:
    states = torch.tensor([[0.0, 0.0], [5.0, 100.0]])[:, :, None]
    close(nearest_neighbour_novelty(states, states, k=1).exp() - 1.0, torch.tensor([[5.0, 100.0], [5.0, 100.0]]))


def test_more_neighbours_than_states_are_refused() -> None:
    states = torch.zeros(3, 1, 2)
    with pytest.raises(ValueError, match="k=3 neighbours need at least 4 states"):
        nearest_neighbour_novelty(states, states, k=3)


def test_episodic_distances_see_only_the_past_of_their_episode() -> None:
    """One environment walks 0→1→3, ends, then 10→11; two rollouts, cut inside the second episode."""
    departures = torch.tensor([0.0, 1.0, 10.0])[:, None, None]
    arrivals = torch.tensor([1.0, 3.0, 11.0])[:, None, None]
    ended = torch.tensor([[False], [True], [False]])
    squared, memory = episodic_distances(arrivals, departures, ended, [torch.zeros(0, 1)], k=2)
    infinite = torch.inf
    close(squared[:, 0], torch.tensor([[1.0, infinite], [4.0, 9.0], [1.0, infinite]]))
    close(memory[0], torch.tensor([[10.0]]))
    on = torch.tensor([11.0])[:, None, None]
    squared, memory = episodic_distances(on + 2.0, on, torch.tensor([[True]]), memory, k=2)
    close(squared[0, 0], torch.tensor([4.0, 9.0]))
    assert memory[0].shape == (0, 1)


def test_soft_counts_count_visits() -> None:
    """Three neighbours at the very place, one far away, one missing."""
    squared = torch.tensor([[0.0, 0.0, 0.0, 1e9, torch.inf]])
    close(soft_counts(squared, scale=1.0, cluster_distance=0.008, epsilon=1e-4), torch.tensor([3.0]))
    # nobody moved at all: the mean distance is 0 and every neighbour is a visit
    close(soft_counts(torch.zeros(1, 4), scale=0.0, cluster_distance=0.0, epsilon=1e-4), torch.tensor([4.0]))


def test_elliptical_bonus_equals_the_explicit_inverse() -> None:
    generator = torch.Generator().manual_seed(0)
    steps, environments, width, ridge = 60, 3, 5, 0.1
    features = torch.randn(steps, environments, width, generator=generator)
    ended = torch.rand(steps, environments, generator=generator) < 0.05
    ended[30] = torch.tensor([True, False, False])
    start = (torch.eye(width) / ridge).repeat(environments, 1, 1)
    bonus, inverse = elliptical_bonus(features, ended, start, ridge)
    for env in range(environments):
        covariance = ridge * np.eye(width)
        for step in range(steps):
            state = features[step, env].double().numpy()
            assert bonus[step, env].item() == pytest.approx(state @ np.linalg.inv(covariance) @ state, rel=1e-3)
            covariance = ridge * np.eye(width) if ended[step, env] else covariance + np.outer(state, state)
        np.testing.assert_allclose(inverse[env].numpy(), np.linalg.inv(covariance), rtol=1e-2, atol=1e-4)
