"""All parameters of a module in one piece of memory, and so are their gradients and the optimiser's moments.

The module stays what it is: its parameters become views, so ``state_dict``, saving and a user's own code see every
change, while one call can clip, step or copy them all, and compiled kernels can work on them in place.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from proximo.networks.hooks import has_hooks
from proximo.networks.optimizers import RMSpropTFLike

ALIGNMENT = 16  # floats: every parameter begins on a 64-byte cache line, as the widest vector instructions like it

# Tensors that an optimiser keeps per parameter, beside "step": name, and the option of a group that calls for it
STATE_TENSORS: dict[type[torch.optim.Optimizer], tuple[tuple[str, str | None], ...]] = {
    torch.optim.Adam: (("exp_avg", None), ("exp_avg_sq", None), ("max_exp_avg_sq", "amsgrad")),
    torch.optim.AdamW: (("exp_avg", None), ("exp_avg_sq", None), ("max_exp_avg_sq", "amsgrad")),
    torch.optim.RMSprop: (("square_avg", None), ("momentum_buffer", "momentum"), ("grad_avg", "centered")),
    RMSpropTFLike: (("square_avg", None), ("momentum_buffer", "momentum"), ("grad_avg", "centered")),
}
STARTS_AT_ONE = {(RMSpropTFLike, "square_avg")}  # every other state starts at zero
FUSED_KERNELS = (torch.optim.Adam, torch.optim.AdamW)  # PyTorch steps these in one pass over parameters and moments


class Segment(NamedTuple):
    """Where one parameter lies within the flat memory.

    Arguments:
        name: The parameter's name in the module.
        parameter: The parameter itself.
        offset: Where it begins.
        strides: Its strides within its segment.
    """

    name: str
    parameter: nn.Parameter
    offset: int
    size: int  # without padding
    strides: tuple[int, ...]

    def view(self, memory: Tensor) -> Tensor:
        """The parameter's part of a flat array, in its shape."""
        return memory.as_strided(self.parameter.shape, self.strides, self.offset)

    @property
    def padded_size(self) -> int:
        """Numbers that it takes, padding included."""
        return padded(self.size)


def padded(size: int) -> int:
    """
    >>> padded(1), padded(16), padded(17)
    (16, 16, 32)
    """
    return -(-size // ALIGNMENT) * ALIGNMENT


def fused_by_default(optimizer: torch.optim.Optimizer, group: Mapping[str, Any]) -> bool:
    """Whether PyTorch's fused kernel may step a group: it has one, and the user asked for no other way."""
    return type(optimizer) in FUSED_KERNELS and group["fused"] is None and group["foreach"] is None


class FlatParameters:
    """Moves a module's parameters, and the state of its optimiser, into flat float32 memory.

    A frozen parameter (``requires_grad`` false) lies in ``data`` too, but has neither gradient nor optimiser state.

    >>> layer = nn.Linear(3, 2)
    >>> flat = FlatParameters(layer, torch.optim.Adam(layer.parameters()))
    >>> flat.data[:6] = 1.0
    >>> layer.weight.sum().item(), len(flat.data)
    (6.0, 32)
    """

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Arguments:
        module: The module whose parameters become views of flat memory.
        optimizer: Its optimiser, whose state moves along.
        """
        self.module = module
        self.optimizer = optimizer
        self.segments = _lay_out(module)
        if optimizer is not None:
            check_optimizer(module, optimizer)
        total = sum(segment.padded_size for segment in self.segments)
        device = self.segments[0].parameter.device if self.segments else torch.device("cpu")
        self.data = torch.zeros(total, device=device)
        self.gradients = torch.zeros(total, device=device)
        self.state = {name: torch.zeros(total, device=device) for name in self._state_names()}
        self.steps = torch.zeros(len(self.segments), device=self._step_device(device))
        with torch.no_grad():
            for segment in self.segments:
                view = segment.view(self.data)
                view.copy_(segment.parameter)
                segment.parameter.data = view
        self._parts, self._addresses = self._structure(), self._current_addresses()
        self.bind_gradients()
        self.rebind()

    def bind_gradients(self, parameters: Collection[nn.Parameter] | None = None) -> None:
        """Make every ``.grad`` a view again; ``optimizer.zero_grad()`` throws them away.

        With ``parameters``, only those have one: an optimiser leaves a parameter without gradient alone.
        """
        chosen = None if parameters is None else {id(parameter) for parameter in parameters}
        for segment in self.segments:
            parameter = segment.parameter
            if not parameter.requires_grad or (chosen is not None and id(parameter) not in chosen):
                parameter.grad = None
                continue
            view = segment.view(self.gradients)
            if parameter.grad is None or parameter.grad.data_ptr() != view.data_ptr():
                parameter.grad = view

    def zero_gradients(self) -> None:
        """All gradients 0, in one write."""
        self.gradients.zero_()

    def gradient_norm(self) -> Tensor:
        """Euclidean norm over all gradients, a tensor without dimensions."""
        return torch.linalg.vector_norm(self.gradients)

    def rebind(self) -> None:
        """Move the optimiser's state back here: after ``load_state_dict`` it lies in tensors of the optimiser's own."""
        self._optimizer_parts: list[object] = []
        if self.optimizer is None or not self._manages_state():
            return
        for index, segment in enumerate(self.segments):
            if not segment.parameter.requires_grad:
                continue
            state = self.optimizer.state[segment.parameter]
            self._adopt(state, "step", self.steps[index])
            for name, memory in self.state.items():
                initial = 1.0 if (type(self.optimizer), name) in STARTS_AT_ONE else 0.0
                self._adopt(state, name, segment.view(memory), initial)
        self._optimizer_parts = self._optimizer_structure()

    @staticmethod
    def _adopt(state: dict[str, Tensor], name: str, view: Tensor, initial: float = 0.0) -> None:
        """Put ``view`` in the place of an optimiser's tensor, with its values, or ``initial`` if there is none."""
        present = state.get(name)
        if present is None:
            view.fill_(initial)
        elif not isinstance(present, Tensor) or present.data_ptr() != view.data_ptr():
            view.copy_(torch.as_tensor(present))
        state[name] = view

    def is_current(self) -> bool:
        """Whether the module is still built of the same parts, and they and the optimiser's state still lie here.

        ``module.to()`` and the optimiser's ``load_state_dict`` move them; users replace layers and add hooks. Asked
        twice per iteration, so nothing here hashes a tensor or calls into PyTorch more than it must.
        """
        return (
            _same(self._structure(), self._parts)
            and _same(self._optimizer_structure(), self._optimizer_parts)
            and self._addresses == self._current_addresses()
        )

    def _structure(self) -> list[object]:
        """All modules and parameters, and which modules have hooks: whatever is replaced differs here."""
        parts: list[object] = []
        modules, seen = [self.module], {id(self.module)}
        for module in modules:
            parts += (module, has_hooks(module), *module._parameters.values())
            for child in module._modules.values():
                if child is not None and id(child) not in seen:
                    seen.add(id(child))
                    modules.append(child)
        return parts

    def _optimizer_structure(self) -> list[object]:
        """The optimiser's dictionaries and what they hold; ``load_state_dict`` replaces them all."""
        if self.optimizer is None or not self._manages_state():
            return []
        return [part for state in self.optimizer.state.values() for part in (state, *state.values())]

    def _current_addresses(self) -> list[tuple[int, bool]]:
        """Where each parameter lies, and whether it is trained."""
        return [(segment.parameter.data_ptr(), segment.parameter.requires_grad) for segment in self.segments]

    def _manages_state(self) -> bool:
        return type(self.optimizer) in STATE_TENSORS

    def _state_names(self) -> tuple[str, ...]:
        """Tensors that the optimiser keeps; none for a class that is not in the table: that one keeps its own."""
        if self.optimizer is None:
            return ()
        table = STATE_TENSORS.get(type(self.optimizer), ())
        groups = self.optimizer.param_groups
        return tuple(name for name, option in table if option is None or any(group.get(option) for group in groups))

    def _step_device(self, device: torch.device) -> torch.device:
        """torch counts steps on the CPU, unless the optimiser runs wholly on the device.

        Fused kernels take no other count; whether they are used may be decided after this.
        """
        if self.optimizer is None:
            return torch.device("cpu")
        on_device = any(
            group.get("capturable") or group.get("fused") or fused_by_default(self.optimizer, group)
            for group in self.optimizer.param_groups
        )
        return device if on_device else torch.device("cpu")


def _same(parts: list[object], others: list[object]) -> bool:
    return len(parts) == len(others) and all(map(operator.is_, parts, others))


def check_optimizer(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Raise when an optimiser was made for parameters that the module no longer has: it would train nothing.

    One for a part of the module is fine: who leaves parameters out means it.
    """
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    foreign = len(held - {id(parameter) for parameter in module.parameters()})
    missing = [name for name, part in module.named_parameters() if part.requires_grad and id(part) not in held]
    if foreign and missing:
        raise ValueError(
            f"the optimiser holds {foreign} parameters that the module does not have, and lacks {len(missing)} that it "
            f"has ({', '.join(missing[:3])}{', …' if len(missing) > 3 else ''}), which would never be trained; after "
            "replacing layers or moving the module, make the optimiser again from module.parameters()"
        )


def _lay_out(module: nn.Module) -> list[Segment]:
    """Offsets for all parameters; one that is used in two places counts once."""
    segments: list[Segment] = []
    offset = 0
    owners: dict[int, str] = {}
    for name, parameter in module.named_parameters():
        if parameter.dtype != torch.float32:
            raise ValueError(f"parameter {name!r} is {parameter.dtype}; flat memory holds float32: call module.float()")
        if segments and parameter.device != segments[0].parameter.device:
            raise ValueError(
                f"parameter {name!r} is on {parameter.device}, {segments[0].name!r} on {segments[0].parameter.device}; "
                "move the whole module to one device"
            )
        address = parameter.data_ptr()
        if parameter.numel() and owners.setdefault(address, name) != name:
            raise ValueError(
                f"parameters {owners[address]!r} and {name!r} are different objects over the same memory; "
                "share one nn.Parameter instead"
            )
        # as empty_like has it: a dense layout such as channels_last is kept, any other becomes contiguous
        strides = torch.empty_like(parameter).stride()
        segments.append(Segment(name, parameter, offset, parameter.numel(), strides))
        offset += padded(parameter.numel())
    return segments
