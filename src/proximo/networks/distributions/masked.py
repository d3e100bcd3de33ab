"""sb3-contrib's ways to masked distributions that the rest of the library does without."""

from __future__ import annotations

from typing import TypeAlias

import torch
from gymnasium import spaces
from torch import Tensor
from torch import distributions as torch_distributions

from proximo.data import Array
from proximo.functional.spaces import Space, get_action_dim
from proximo.networks.distributions.base import MASKED_LOGIT, Distribution
from proximo.networks.distributions.discrete import (
    CategoricalDistribution,
    MaskableBernoulliDistribution,
    MultiCategoricalDistribution,
)

MaybeMasks: TypeAlias = Tensor | Array | None


class MaskableCategorical(torch_distributions.Categorical):
    """torch's ``Categorical`` with a mask that can be put on, replaced, and taken off by None.

    >>> choice = MaskableCategorical(logits=torch.zeros(4), masks=torch.tensor([True, True, False, False]))
    >>> choice.probs
    tensor([0.5000, 0.5000, 0.0000, 0.0000])
    """

    masks: Tensor | None

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
        masks: MaybeMasks = None,
    ) -> None:
        """Arguments:
        probs: Probabilities; not with logits.
        logits: Logarithms of probabilities, up to a constant; not with probs.
        validate_args: Whether torch checks them.
        masks: True where a choice is allowed; None allows all.
        """
        super().__init__(probs, logits, validate_args)
        self._unmasked: Tensor = self.logits
        self.apply_masking(masks)

    def apply_masking(self, masks: MaybeMasks) -> None:
        """Put a mask on, in the place of an earlier one; None takes it off."""
        logits = self._unmasked
        self.masks = None
        if masks is not None:
            self.masks = torch.as_tensor(masks, dtype=torch.bool, device=logits.device).reshape(logits.shape)
            logits = logits.masked_fill(~self.masks, MASKED_LOGIT)
        self.logits = self._param = logits.log_softmax(dim=-1)
        self.__dict__.pop("probs", None)  # torch computes them from the logits when asked


def make_masked_proba_distribution(action_space: Space) -> Distribution:
    """The distribution of MaskablePPO's policies: switches have two logits each.

    >>> make_masked_proba_distribution(spaces.MultiBinary(3)).parameter_width
    6
    """
    match action_space:
        case spaces.Discrete():
            return CategoricalDistribution(int(action_space.n))
        case spaces.MultiDiscrete():
            return MultiCategoricalDistribution(action_space.nvec.tolist())
        case spaces.MultiBinary():
            return MaskableBernoulliDistribution(get_action_dim(action_space))
    raise NotImplementedError(
        f"only discrete choices can be masked, got the action space {action_space}; make_proba_distribution "
        "has the distributions of the others"
    )
