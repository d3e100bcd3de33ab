"""Optimisers that PyTorch does not have, and how an optimiser follows the parameters of its module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim.optimizer import ParamsT


class RMSpropTFLike(torch.optim.Optimizer):
    """RMSprop as TensorFlow has it, with which A2C's published results were made.

    v ← α v + (1 − α) g²,  p ← p − lr · g / √(v + ε), where v starts at ones: the first steps are small, while
    PyTorch's RMSprop, whose v starts at zeros and whose ε stands outside the root, begins with steps of about
    lr / √(1 − α). ``centered`` takes the variance v − m² of the gradient in the place of v, m being its mean.

    >>> weight = torch.nn.Parameter(torch.zeros(1))
    >>> weight.grad = torch.ones(1)
    >>> RMSpropTFLike([weight], lr=0.1).step()
    >>> round(weight.item(), 4)
    -0.1
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
    ) -> None:
        """Arguments:
        params: Parameters, or groups of them.
        lr: Step size.
        alpha: How slowly the mean of squared gradients follows.
        eps: Added to that mean inside the root.
        weight_decay: Multiple of a parameter that is added to its gradient.
        momentum: Share of the previous step that is kept.
        centered: Whether the variance of the gradient takes the place of its mean square.
        """
        numbers = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        for name, value in numbers.items():
            if not value >= 0.0:
                raise ValueError(f"{name} is {value}; RMSprop needs a number of at least 0")
        super().__init__(params, {**numbers, "centered": centered})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step against the gradients; a parameter without one stays. Returns what ``closure`` returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if parameters:
                self._step_group(parameters, group)
        return loss

    def _step_group(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        gradients = [cast("Tensor", parameter.grad) for parameter in parameters]
        decay, learning_rate = group["alpha"], group["lr"]
        for parameter in parameters:
            # in place where it is a tensor, whose memory others may hold; in Stable-Baselines3's files it is a number
            self.state[parameter].setdefault("step", torch.zeros(()))
            self.state[parameter]["step"] += 1
        if group["weight_decay"]:
            gradients = list(torch._foreach_add(gradients, parameters, alpha=group["weight_decay"]))
        squares = self._tensors(parameters, "square_avg", 1.0)
        torch._foreach_mul_(squares, decay)
        torch._foreach_addcmul_(squares, gradients, gradients, value=1.0 - decay)
        deviations = torch._foreach_add(squares, group["eps"])
        if group["centered"]:
            means = self._tensors(parameters, "grad_avg", 0.0)
            torch._foreach_lerp_(means, gradients, 1.0 - decay)
            torch._foreach_addcmul_(deviations, means, means, value=-1.0)
        torch._foreach_sqrt_(deviations)
        if group["momentum"]:
            steps = self._tensors(parameters, "momentum_buffer", 0.0)
            torch._foreach_mul_(steps, group["momentum"])
            torch._foreach_addcdiv_(steps, gradients, deviations)
            torch._foreach_add_(parameters, steps, alpha=-learning_rate)
        else:
            torch._foreach_addcdiv_(parameters, gradients, deviations, value=-learning_rate)

    def _tensors(self, parameters: list[Tensor], name: str, initial: float) -> list[Tensor]:
        """What is kept under ``name`` for each parameter, filled with ``initial`` at first."""
        for parameter in parameters:
            state = self.state[parameter]
            if name not in state:
                state[name] = torch.full_like(parameter, initial)
        return [self.state[parameter][name] for parameter in parameters]


def update_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Give every group of an optimiser's parameters this learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


def all_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """Under every name, also of those that are used in several places."""
    return dict(module.named_parameters(remove_duplicate=False))


def follow_parameters(
    optimizers: Iterable[torch.optim.Optimizer], before: Mapping[str, nn.Parameter], after: Mapping[str, nn.Parameter]
) -> None:
    """Let optimisers hold what has taken the place of a module's parameters; their state goes along.

    On some devices (XLA) ``module.to(device)`` makes new parameters, and an optimiser of the old ones trains nothing.

    >>> layer = nn.Linear(1, 1)
    >>> before, optimizer = all_parameters(layer), torch.optim.SGD(layer.parameters(), lr=0.1)
    >>> layer.weight = nn.Parameter(torch.zeros(1, 1))
    >>> follow_parameters([optimizer], before, all_parameters(layer))
    >>> optimizer.param_groups[0]["params"][0] is layer.weight
    True
    """
    successors = {id(old): after[name] for name, old in before.items() if after[name] is not old}
    if not successors:
        return
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["params"] = [successors.get(id(parameter), parameter) for parameter in group["params"]]
        for parameter in list(optimizer.state):
            if id(parameter) in successors:
                optimizer.state[successors[id(parameter)]] = optimizer.state.pop(parameter)
