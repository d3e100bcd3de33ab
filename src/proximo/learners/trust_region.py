"""The mathematics of the natural gradient: what a trust-region step needs, and nothing about rollouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], target: Tensor, iterations: int, tolerance: float = 1e-10
) -> Tensor:
    """Solve A x = b for a symmetric positive definite A that is known only by ``product``: v ↦ A v.

    From x = 0 and r = d = b each iteration takes α = rᵀr / dᵀAd, x ← x + α d, r' = r − α A d and
    d ← r' + (r'ᵀr' / rᵀr) d (Hestenes and Stiefel 1952). In exact arithmetic as many iterations as A has dimensions
    give the solution; it ends early when rᵀr falls below ``tolerance``.

    >>> matrix = torch.tensor([[4.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradient(lambda vector: matrix @ vector, torch.tensor([1.0, 2.0]), iterations=2).mul(11).round()
    tensor([1., 7.])
    """
    solution = torch.zeros_like(target)
    residual = direction = target
    squared_norm = residual.dot(residual)
    for _ in range(iterations):
        if squared_norm < tolerance:
            break
        image = product(direction)
        length = squared_norm / direction.dot(image)
        solution = solution + length * direction
        residual = residual - length * image
        previous, squared_norm = squared_norm, residual.dot(residual)
        direction = residual + squared_norm / previous * direction
    return solution


def flat_gradient(
    output: Tensor, parameters: Sequence[nn.Parameter], retain_graph: bool = False, create_graph: bool = False
) -> Tensor:
    """∂output/∂parameters as one vector, in the order of the parameters; zero for those without influence."""
    gradients = torch.autograd.grad(
        output,
        parameters,
        retain_graph=retain_graph or create_graph,
        create_graph=create_graph,
        allow_unused=True,
        materialize_grads=True,
    )
    return torch.cat([gradient.reshape(-1) for gradient in gradients])


def influential(output: Tensor, parameters: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """The parameters that ``output`` was computed from."""
    gradients = torch.autograd.grad(output, parameters, retain_graph=True, allow_unused=True)
    return [parameter for parameter, slope in zip(parameters, gradients, strict=True) if slope is not None]


def fisher_product(
    divergence: Tensor,
    parameters: Sequence[nn.Parameter],
    damping: float,
    reduce: Callable[[Tensor], None] | None = None,
) -> Callable[[Tensor], Tensor]:
    """v ↦ (F + damping · I) v, where F is the Hessian of the KL divergence between a policy and itself.

    F is Fisher's information matrix; it is never formed: F v = ∇(∇KL · v) (Pearlmutter 1994). The damping keeps the
    matrix positive definite where the rollout says nothing about a direction. ``reduce`` sums F v over processes, of
    which each has a share of the divergence.
    """
    slope = flat_gradient(divergence, parameters, create_graph=True)

    def product(vector: Tensor) -> Tensor:
        image = flat_gradient(slope.dot(vector), parameters, retain_graph=True)
        if reduce is not None:
            reduce(image)
        return image + damping * vector

    return product


def largest_step(direction: Tensor, curvature: Tensor, target_kl: float) -> Tensor:
    """``direction`` at the length where the quadratic model ½ sᵀFs of the divergence is ``target_kl``.

    s = √(2 δ / xᵀFx) · x (Schulman et al. 2015, appendix C); ``curvature`` is F x. Zero where the model is flat.
    """
    quadratic = direction.dot(curvature)
    return direction * torch.sqrt(2.0 * target_kl / quadratic) if quadratic > 0.0 else torch.zeros_like(direction)


def flat_values(parameters: Sequence[nn.Parameter]) -> Tensor:
    """A copy of all parameters as one vector."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in parameters])


@torch.no_grad()
def assign_values(parameters: Sequence[nn.Parameter], vector: Tensor) -> None:
    """The reverse of :func:`flat_values`; written in place, because other code may hold the parameters' memory."""
    pieces = vector.split([parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.copy_(piece.view_as(parameter))
