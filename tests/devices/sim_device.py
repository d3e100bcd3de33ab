"""A device beside the CPU for tests: ``device="sim"``, whose tensors compute on the CPU but refuse those of the CPU.

PyTorch lets Python register one device per process ("PrivateUse1"). Its tensors wrap a CPU tensor. Every operation on
them unwraps, runs on the CPU and wraps again, so results are the CPU's; what differs is what differs on CUDA: operands
of two devices are an error, and what passes between the devices is counted.

:func:`register` changes PyTorch for the whole process, so tests on this device run in a process of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch._decomp.decompositions import gru_impl, lstm_impl
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

aten = torch.ops.aten

# these take tensors of two devices on CUDA too: copies, and integer indices, which are copied to the device
COPIES = {aten.copy_.default, aten._to_copy.default}
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._unsafe_index.Tensor}
# pointwise in CUDA's eyes, though their tags do not say so
TAKE_CPU_NUMBERS = {aten.where.self, aten.fill_.Tensor, aten.masked_fill.Tensor, aten.masked_fill_.Tensor}
# on CUDA their results wait for a size that is copied back
SIZES_COME_BACK = {aten.nonzero.default, aten.masked_select.default, aten._unique2.default, aten.bincount.default}
READ_BACK = {aten._local_scalar_dense.default, aten.equal.default}
CHANGES_OF_SHAPE = {aten.resize_.default, aten.set_.source_Tensor, aten.t_.default, aten.transpose_.default}


@dataclass
class Transfers:
    """What passed between CPU and device, as "operation [shape]"."""

    copies_in: list[str] = field(default_factory=list)
    copies_out: list[str] = field(default_factory=list)  # with numbers that Python reads: item(), float(), bool()


_listeners: list[Transfers] = []
_own_generator: list[torch.Generator] = []  # holds one while the device draws from a generator of its own


@contextmanager
def count_transfers() -> Iterator[Transfers]:
    """Count what passes between CPU and device within the block."""
    found = Transfers()
    _listeners.append(found)
    try:
        yield found
    finally:
        _listeners.remove(found)


@contextmanager
def own_generator(seed: int = 0) -> Iterator[None]:
    """Draw on the device from a generator of its own, as accelerators do.

    Without this the device draws from the CPU's, so that a training on it takes the actions of one on the CPU.
    """
    _own_generator.append(torch.Generator().manual_seed(seed))
    try:
        yield
    finally:
        _own_generator.pop()


@contextmanager
def replaced_parameters() -> Iterator[None]:
    """Within the block ``module.to(device)`` makes new parameters, as on XLA, and leaves optimisers the old ones."""
    torch.__future__.set_swap_module_params_on_conversion(False)
    try:
        yield
    finally:
        torch.__future__.set_swap_module_params_on_conversion(True)


class SimTensor(torch.Tensor):
    """A tensor of the device, around the CPU tensor that holds its numbers."""

    inner: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # results keep their own type

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> SimTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device="sim:0",
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(
        cls, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return run(operation, *args, **(kwargs or {}))

    @property
    def data(self) -> SimTensor:
        return SimTensor(self.inner.data)

    @data.setter
    def data(self, values: SimTensor) -> None:
        if not isinstance(values, SimTensor) or values.shape != self.shape:
            raise RuntimeError(f"data of a {tuple(self.shape)} tensor on sim:0 cannot be {values!r:.80}")
        self.inner = values.inner

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    def stride(self, dim: int | None = None) -> Any:
        return self.inner.stride() if dim is None else self.inner.stride(dim)

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.detach().cpu().numpy()
        raise TypeError("can't convert sim:0 device type tensor to numpy. Use Tensor.cpu() to copy it to the CPU first")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.numpy()

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"SimTensor({self.inner!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> SimTensor:
        made = SimTensor(self.inner.detach().clone()).requires_grad_(self.requires_grad)
        made._is_param = getattr(self, "_is_param", False)  # what makes it an nn.Parameter
        memo[id(self)] = made
        return made


class SimModule(_DummyBackendModule):
    """``torch.sim``: what PyTorch asks of a device, and its random state."""

    def manual_seed_all(self, seed: int) -> None:
        for generator in _own_generator:
            generator.manual_seed(seed)

    def get_rng_state(self, device: Any = "sim") -> torch.Tensor:
        return _own_generator[-1].get_state() if _own_generator else torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = "sim") -> None:
        if _own_generator:
            _own_generator[-1].set_state(state)
        else:
            torch.set_rng_state(state)


def run(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """One operation on tensors of the device, or one that makes some, with the CPU's numbers."""
    leaves, structure = tree_flatten((args, kwargs))
    given = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    check_devices(operation, given, args)
    target = kwargs.get("device")
    count(operation, given, args, target)
    wrapper_of = {id(tensor.inner): tensor for tensor in given if isinstance(tensor, SimTensor)}
    unwrapped = [leaf.inner if isinstance(leaf, SimTensor) else leaf for leaf in leaves]
    cpu_args, cpu_kwargs = tree_unflatten(unwrapped, structure)
    if target is not None:
        cpu_kwargs["device"] = torch.device("cpu")
    if operation is aten._to_copy.default and target is not None:
        cpu_kwargs["non_blocking"] = False
        if torch.device(target).type == "cpu":
            return operation(*cpu_args, **cpu_kwargs)
    with drawing(operation):
        results = operation(*cpu_args, **cpu_kwargs)
    if operation is aten.copy_.default and not isinstance(args[0], SimTensor):
        return args[0]
    # what was changed in place comes back as the tensor that was given
    return tree_map_only(
        torch.Tensor, lambda result: wrapper_of[id(result)] if id(result) in wrapper_of else SimTensor(result), results
    )


def check_devices(operation: Any, given: list[torch.Tensor], args: tuple[Any, ...]) -> None:
    """Refuse operands of two devices, as CUDA does."""
    if operation in CHANGES_OF_SHAPE:
        raise NotImplementedError(f"{operation} on sim: the wrapper keeps its shape")
    strangers = [tensor for tensor in given if not isinstance(tensor, SimTensor)]
    if not strangers or len(strangers) == len(given) or operation in COPIES:
        return
    if operation in INDEXING:
        indices = {id(index) for index in args[1] if index is not None}
        strangers = [tensor for tensor in strangers if id(tensor) not in indices]
    numbers_allowed = torch.Tag.pointwise in operation.tags or operation in TAKE_CPU_NUMBERS | INDEXING
    changed = {id(tensor) for tensor in tensors_changed(operation, args)}
    refused = [part for part in strangers if part.dim() > 0 or not numbers_allowed or id(part) in changed]
    if refused:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, sim:0 and "
            f"{refused[0].device}! (operation {operation}, CPU tensor of shape {list(refused[0].shape)})"
        )


def tensors_changed(operation: Any, args: tuple[Any, ...]) -> list[torch.Tensor]:
    """The arguments that an operation writes to."""
    described = zip(operation._schema.arguments, args, strict=False)
    written = [value for argument, value in described if argument.alias_info and argument.alias_info.is_write]
    return [leaf for leaf in tree_flatten(written)[0] if isinstance(leaf, torch.Tensor)]


def count(operation: Any, given: list[torch.Tensor], args: tuple[Any, ...], target: Any) -> None:
    """Tell the listeners of what passes between the devices."""
    if not _listeners or not given:
        return
    if operation is aten._to_copy.default and target is not None:
        into, out = target_is_sim(target) and not isinstance(args[0], SimTensor), not target_is_sim(target)
    elif operation is aten.copy_.default:
        into, out = not isinstance(args[1], SimTensor), not isinstance(args[0], SimTensor)
    elif operation in INDEXING:
        indices = [index for index in args[1] if index is not None]
        into = any(not isinstance(index, SimTensor) for index in indices)
        out = any(index.dtype in (torch.bool, torch.uint8) for index in indices)  # how many are true
    else:
        into, out = False, operation in READ_BACK | SIZES_COME_BACK
    for passed, name in ((into, "copies_in"), (out, "copies_out")):
        if passed:
            for listener in _listeners:
                getattr(listener, name).append(f"{operation} {list(given[-1].shape)}")


def target_is_sim(target: Any) -> bool:
    return torch.device(target).type == "sim"


@contextmanager
def drawing(operation: Any) -> Iterator[None]:
    """Draw from the device's own generator, where it has one."""
    if not _own_generator or torch.Tag.nondeterministic_seeded not in operation.tags:
        yield
        return
    of_cpu = torch.get_rng_state()
    torch.set_rng_state(_own_generator[-1].get_state())
    try:
        yield
    finally:
        _own_generator[-1].set_state(torch.get_rng_state())
        torch.set_rng_state(of_cpu)


_libraries: list[torch.library.Library] = []  # registrations last as long as these


def register() -> None:
    """Make ``device="sim"`` known to PyTorch, once per process."""
    if _libraries:
        return
    _setup_privateuseone_for_python_backend("sim", backend_module=SimModule())
    # what takes no tensor of the device (torch.zeros(…, device="sim"), a copy from the CPU) comes by the dispatcher
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(run, "PrivateUse1")
    operators = torch.library.Library("aten", "IMPL")
    # torch.tensor(…, device="sim") leaves the subclass's dispatch out, and PyTorch has a kernel of its own for copies
    operators.impl("_to_copy", partial(run, aten._to_copy.default), "PrivateUse1")
    operators.impl("copy_", partial(run, aten.copy_.default), "PrivateUse1")
    recurrent: dict[str, Callable[..., Any]] = {"lstm.input": lstm_impl, "gru.input": gru_impl}
    for name, decomposition in recurrent.items():
        # PyTorch's own equations in smaller operations: its fused cells have no CPU kernel behind them
        operators.impl(name, decomposition, "AutogradPrivateUse1")
        operators.impl(name, decomposition, "PrivateUse1")
    _libraries.extend((everything, operators))
    # a parameter cannot point to memory of another device: its module exchanges what is behind the same object
    torch.__future__.set_swap_module_params_on_conversion(True)
