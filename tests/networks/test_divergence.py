"""The KL divergence from stored parameters, against torch's own, with masks and hybrid actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo.networks.distributions import (
    Distribution,
    MaskableBernoulliDistribution,
    StateDependentNoiseDistribution,
    kl_divergence,
    make_proba_distribution,
)
from proximo.networks.distributions.base import frozen
from proximo.networks.distributions.divergence import kl_from_rows, parameter_rows

HYBRID = spaces.Dict(
    kind=spaces.Discrete(3),
    power=spaces.Box(-1.0, 1.0, (2,), np.float32),
    rest=spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3])]),
)
SPACES = {
    "discrete": spaces.Discrete(4),
    "several": spaces.MultiDiscrete([2, 3, 4]),
    "switches": spaces.MultiBinary(3),
    "continuous": spaces.Box(-1.0, 1.0, (3,)),
    "hybrid": HYBRID,
}


def filled(distribution: Distribution, seed: int, rows: int = 6) -> Distribution:
    generator = torch.Generator().manual_seed(seed)
    parameters = torch.randn(rows, distribution.parameter_width, generator=generator)
    if isinstance(distribution, StateDependentNoiseDistribution):
        _, log_std = distribution.proba_distribution_net(5)
        latent = torch.randn(rows, 5, generator=generator)
        return distribution.proba_distribution(parameters, log_std.detach() + seed, latent)
    try:
        return distribution.proba_distribution(parameters)
    except TypeError:
        width = sum(getattr(distribution, "deviations", [distribution.parameter_width]))
        return distribution.proba_distribution(parameters, torch.randn(width, generator=generator))


def summed(divergence: torch.Tensor) -> torch.Tensor:
    return divergence.sum(dim=1) if divergence.dim() > 1 else divergence


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_equals_torchs_divergence(space: Any) -> None:
    distribution = make_proba_distribution(space)
    old = frozen(filled(distribution, 0))
    rows = parameter_rows(old)
    new = filled(distribution, 1)
    found = kl_from_rows(rows, new)
    assert found.shape == (6,)
    torch.testing.assert_close(found, summed(kl_divergence(old, new)))
    assert (found > 0.0).all()
    torch.testing.assert_close(kl_from_rows(parameter_rows(new), new), torch.zeros(6), atol=1e-6, rtol=0.0)


@pytest.mark.parametrize("squash", [False, True])
def test_state_dependent_noise(squash: bool) -> None:
    distribution = StateDependentNoiseDistribution(3, squash_output=squash)
    old = frozen(filled(distribution, 0))
    new = filled(distribution, 1)
    expected = torch.distributions.kl_divergence(old.distribution, new.distribution).sum(dim=1)
    torch.testing.assert_close(kl_from_rows(parameter_rows(old), new), expected)


@pytest.mark.parametrize("name", ["discrete", "several", "switches", "hybrid", "pairs"])
def test_masks_are_respected(name: str) -> None:
    """What is forbidden adds nothing, is finite, and has no gradient."""
    distribution = MaskableBernoulliDistribution(3) if name == "pairs" else make_proba_distribution(SPACES[name])
    masks = torch.ones(6, distribution.mask_width, dtype=torch.bool)
    masks[:, 0] = False

    def masked(seed: int) -> Distribution:
        found = filled(distribution, seed)
        found.apply_masking(masks)
        return found

    rows = parameter_rows(masked(0)).clone()
    free = kl_from_rows(parameter_rows(filled(distribution, 0)).clone(), filled(distribution, 1))
    found = kl_from_rows(rows, masked(1))
    assert torch.isfinite(found).all()
    assert (found > -1e-6).all()
    assert not torch.allclose(found, free)


def test_masked_logits_have_no_gradient() -> None:
    distribution = make_proba_distribution(spaces.Discrete(3))
    masks = torch.tensor([[True, False, True]])
    distribution.proba_distribution(torch.zeros(1, 3)).apply_masking(masks)
    rows = parameter_rows(distribution).clone()
    logits = torch.tensor([[0.0, 5.0, 1.0]], requires_grad=True)
    distribution.proba_distribution(logits).apply_masking(masks)
    divergence = kl_from_rows(rows, distribution)
    # two equal choices against odds of 1 : e
    assert float(divergence.detach()) == pytest.approx(0.12011450695827752, abs=1e-6)
    divergence.sum().backward()
    assert float(logits.grad[0, 1]) == pytest.approx(0.0, abs=1e-6)
    assert float(logits.grad[0, 2]) == pytest.approx(float(torch.sigmoid(torch.tensor(1.0))) - 0.5, abs=1e-6)


def test_foreign_distribution_is_refused() -> None:
    class Foreign(Distribution):
        distribution = None

        def proba_distribution_net(self, latent_dim: int) -> Any: ...

        def proba_distribution(self, *parameters: Any) -> Any: ...

        def log_prob(self, actions: Any) -> Any: ...

        def entropy(self) -> Any: ...

        def sample(self) -> Any: ...

        def mode(self) -> Any: ...

    with pytest.raises(TypeError, match="no closed form of the KL divergence is known for Foreign"):
        parameter_rows(Foreign())
    with pytest.raises(TypeError, match="Foreign"):
        kl_from_rows(torch.zeros(1, 1), Foreign())
