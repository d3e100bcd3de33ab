"""One step of gradient descent over flat memory: zero, backward, reduce, norm, finite?, clip, optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import torch
from torch import Tensor, nn

from proximo.functional.losses import TERMS, LossTerms
from proximo.networks.flat_parameters import FUSED_KERNELS, FlatParameters
from proximo.rollout.sharding import Reduce as Reduce


class GradientStep:
    """A step in two halves, between which the caller decides whether to take it.

    >>> layer = nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    >>> step = GradientStep(FlatParameters(layer, optimizer), optimizer)
    >>> norm = step.gradient(layer(torch.ones(1, 2)).sum().backward)
    >>> bool(step.apply(torch.isfinite(norm), norm, max_grad_norm=0.5)), round(float(norm), 3)
    (True, 1.732)
    """

    def __init__(self, flat: FlatParameters, optimizer: torch.optim.Optimizer, reduce: Reduce | None = None) -> None:
        """Arguments:
        flat: Parameters and gradients in flat memory.
        optimizer: What takes the step.
        reduce: Sums the flat gradient over the processes that train together; None where there is one.
        """
        self.flat = flat
        self.optimizer = optimizer
        self.reduce = reduce

    def gradient(
        self,
        accumulate: Callable[[], object],
        parameters: Collection[nn.Parameter] | None = None,
        tail: Tensor | None = None,
    ) -> Tensor:
        """Fill the flat gradients by ``accumulate`` (``loss.backward``, or several of these); returns their norm.

        With ``parameters``, only these have a gradient, and the optimiser leaves the others alone, momentum and all.
        The numbers of ``tail`` are reduced with the gradients, in place.
        """
        self.flat.bind_gradients(parameters)
        self.flat.zero_gradients()
        accumulate()
        if self.reduce is not None:
            self._reduce(self.reduce, tail)
        return self.flat.gradient_norm()

    def shared_gradient(
        self,
        terms: LossTerms,
        loss: Tensor,
        weight: float | None,
        parameters: Collection[nn.Parameter] | None = None,
    ) -> tuple[LossTerms, Tensor]:
        """The gradient of a loss over a minibatch, of which other processes may hold rows; the terms, and the norm.

        ``weight`` is the share of the rows here, None where they are all here (``proximo/rollout/sharding.py``).
        """
        if weight is None:
            return terms, self.gradient(loss.backward, parameters)
        names, numbers = list(terms.extra), [*terms[:TERMS], *terms.extra.values()]
        tail = torch.stack([number.detach().float() for number in numbers])  # type: ignore[union-attr]
        if weight == 0.0:  # a row stands for none: only what it reports is known by it, not how much
            tail, accumulate = torch.zeros_like(tail), _nothing
        else:
            tail, accumulate = tail * weight, (loss * weight).backward
        norm = self.gradient(accumulate, parameters, tail)
        return LossTerms(*tail[:TERMS])._replace(extra=dict(zip(names, tail[TERMS:], strict=True))), norm

    def _reduce(self, reduce: Reduce, tail: Tensor | None) -> None:
        """The one place where gradients of several processes are summed."""
        gradients = self.flat.gradients
        summed = gradients if tail is None else torch.cat([gradients, tail])
        reduce(summed)
        if tail is not None:
            gradients.copy_(summed[: len(gradients)])
            tail.copy_(summed[len(gradients) :])

    def apply(self, finite: Tensor, norm: Tensor, max_grad_norm: float = math.inf) -> Tensor | bool:
        """Scale the gradient down to ``max_grad_norm`` and step, unless ``finite`` is false; returns ``finite``.

        An accelerator decides that itself where its optimiser can skip a step, so that nobody waits for the answer.
        """
        on_device = finite.device.type != "cpu" and _skips_on_device(self.optimizer)
        if not on_device and not bool(finite):
            return False
        if max_grad_norm < math.inf:
            self.flat.gradients.mul_(torch.clamp(max_grad_norm / (norm + 1e-6), max=1.0))
        if not on_device:
            self.optimizer.step()
            return True
        self.optimizer.found_inf = (~finite).to(torch.float32)  # type: ignore[attr-defined]
        try:
            self.optimizer.step()
        finally:
            del self.optimizer.found_inf  # type: ignore[attr-defined]
        return finite


def _nothing() -> None:
    pass


def _skips_on_device(optimizer: torch.optim.Optimizer) -> bool:
    """Whether torch's fused kernels step everything: they leave it as it is where ``found_inf`` is 1."""
    return type(optimizer) in FUSED_KERNELS and all(group["fused"] for group in optimizer.param_groups)
