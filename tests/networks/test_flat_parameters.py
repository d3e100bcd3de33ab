"""Flat memory: the module, its gradients and its optimiser see one and the same numbers."""

from __future__ import annotations

import copy
import io
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from proximo.networks.flat_parameters import FlatParameters
from proximo.networks.optimizers import all_parameters, follow_parameters

OPTIMIZERS = [
    (torch.optim.Adam, {"lr": 1e-2, "eps": 1e-5}),
    (torch.optim.Adam, {"lr": 1e-2, "amsgrad": True}),
    (torch.optim.Adam, {"lr": 1e-2, "fused": True}),
    (torch.optim.Adam, {"lr": 1e-2, "foreach": True}),
    (torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.1}),
    (torch.optim.RMSprop, {"lr": 1e-2, "alpha": 0.99}),
    (torch.optim.RMSprop, {"lr": 1e-2, "momentum": 0.9, "centered": True}),
    (torch.optim.SGD, {"lr": 1e-2, "momentum": 0.9}),
]


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 17), nn.LayerNorm(17), nn.Linear(17, 1))


def train(module: nn.Module, optimizer: torch.optim.Optimizer, steps: int, flat: FlatParameters | None = None) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        optimizer.zero_grad()
        if flat is not None:
            flat.bind_gradients()
            flat.zero_gradients()
        module(torch.randn(8, 3, generator=generator)).square().mean().backward()
        optimizer.step()


def assert_equal(one: nn.Module, other: nn.Module) -> None:
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach(), b.detach(), err_msg=name)


@settings(max_examples=30, derandomize=True)
@given(sizes=st.lists(st.integers(1, 40), min_size=2, max_size=5))
def test_values_are_kept_and_every_parameter_is_an_aligned_view(sizes):
    module = nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(sizes)))
    before = copy.deepcopy(module)
    flat = FlatParameters(module)
    assert_equal(module, before)
    covered = torch.zeros(len(flat.data), dtype=torch.bool)
    for parameter in module.parameters():
        offset = (parameter.data_ptr() - flat.data.data_ptr()) // 4
        assert offset % 16 == 0
        assert not covered[offset : offset + parameter.numel()].any()
        covered[offset : offset + parameter.numel()] = True
    assert torch.all(flat.data[~covered] == 0)
    flat.data.fill_(2.0)
    assert all(torch.all(parameter == 2.0) for parameter in module.parameters())


@pytest.mark.parametrize(("optimizer_class", "options"), OPTIMIZERS)
def test_training_in_flat_memory_is_training(optimizer_class, options):
    module, plain = network(), network()
    optimizer, plain_optimizer = (
        optimizer_class(module.parameters(), **options),
        optimizer_class(plain.parameters(), **options),
    )
    flat = FlatParameters(module, optimizer)
    train(module, optimizer, 5, flat)
    train(plain, plain_optimizer, 5)
    assert_equal(module, plain)
    assert flat.is_current()


@pytest.mark.parametrize(("optimizer_class", "options"), OPTIMIZERS[:7])
def test_optimizer_state_is_flat_too(optimizer_class, options):
    module = network()
    optimizer = optimizer_class(module.parameters(), **options)
    train(module, optimizer, 2)  # state from before the move is taken along
    expected = copy.deepcopy(optimizer.state_dict())
    flat = FlatParameters(module, optimizer)
    for index, parameter in enumerate(module.parameters()):
        for name, tensor in optimizer.state[parameter].items():
            np.testing.assert_array_equal(tensor, expected["state"][index][name])
            memory = flat.steps if name == "step" else flat.state[name]
            assert tensor.untyped_storage().data_ptr() == memory.untyped_storage().data_ptr()
    assert flat.steps.tolist() == [2.0] * 8


def test_state_dict_goes_round_and_rebind_brings_it_home():
    module, plain = network(), network()
    optimizer, plain_optimizer = torch.optim.Adam(module.parameters()), torch.optim.Adam(plain.parameters())
    flat = FlatParameters(module, optimizer)
    train(plain, plain_optimizer, 3)
    file = io.BytesIO()
    torch.save({"module": plain.state_dict(), "optimizer": plain_optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file)
    module.load_state_dict(saved["module"])
    assert flat.is_current()  # torch copies parameters in place …
    optimizer.load_state_dict(saved["optimizer"])
    assert not flat.is_current()  # … and replaces the optimiser's tensors
    flat.rebind()
    assert flat.is_current()
    assert flat.steps.tolist() == [3.0] * 8
    train(module, optimizer, 2, flat)
    train(plain, plain_optimizer, 2)
    assert_equal(module, plain)
    assert flat.steps.tolist() == [5.0] * 8
    assert flat.state["exp_avg_sq"].abs().sum() > 0


def test_an_emptied_optimizer_starts_from_zero_after_rebind():
    module = network()
    optimizer = torch.optim.Adam(module.parameters())
    flat = FlatParameters(module, optimizer)
    train(module, optimizer, 2, flat)
    optimizer.load_state_dict(torch.optim.Adam(network().parameters()).state_dict())
    flat.rebind()
    assert flat.steps.sum() == flat.state["exp_avg"].abs().sum() == 0


def test_moving_a_parameter_elsewhere_is_noticed():
    module = network()
    flat = FlatParameters(module, torch.optim.Adam(module.parameters()))
    assert flat.is_current()
    module[0].weight.data = module[0].weight.data.clone()
    assert not flat.is_current()


def test_gradients():
    module = network()
    flat = FlatParameters(module)
    module(torch.ones(2, 3)).sum().backward()
    norms = torch.stack([parameter.grad.norm() for parameter in module.parameters()])
    assert flat.gradient_norm().item() == pytest.approx(norms.norm().item(), rel=1e-6)
    module.zero_grad(set_to_none=True)
    flat.bind_gradients()
    flat.zero_gradients()
    module(torch.ones(2, 3)).sum().backward()
    assert flat.gradient_norm().item() == pytest.approx(norms.norm().item(), rel=1e-6)
    flat.zero_gradients()
    assert all(torch.all(parameter.grad == 0) for parameter in module.parameters())


def test_a_frozen_parameter_is_not_updated():
    module = network()
    module[2].weight.requires_grad_(False)
    before = module[2].weight.clone()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    flat = FlatParameters(module, optimizer)
    train(module, optimizer, 3, flat)
    np.testing.assert_array_equal(module[2].weight, before)
    assert module[2].weight.grad is None
    assert module[2].weight not in optimizer.state
    assert not torch.equal(module[0].weight, network()[0].weight)


def test_a_shared_parameter_counts_once():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    module[1].weight = module[0].weight
    flat = FlatParameters(module)
    assert len(flat.data) == 16 + 16 + 16
    flat.data.zero_()
    assert module[1].weight.abs().sum() == 0


def test_channels_last_weights_keep_their_layout():
    module = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    before, strides = module.weight.clone(), module.weight.stride()
    FlatParameters(module)
    assert module.weight.stride() == strides == module.weight.grad.stride()
    np.testing.assert_array_equal(module.weight.detach(), before.detach())


def test_other_modules_are_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"'weight' is torch\.float64"):
        FlatParameters(nn.Linear(2, 2).double())
    overlapping = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    overlapping[1].weight = nn.Parameter(overlapping[0].weight.data)
    with pytest.raises(ValueError, match="same memory"):
        FlatParameters(overlapping)


def test_a_module_without_parameters():
    assert len(FlatParameters(nn.Tanh()).data) == 0


def test_rebinding_the_optimizer_does_not_hide_that_parameters_have_left():
    module = network()
    optimizer = torch.optim.Adam(module.parameters())
    flat = FlatParameters(module, optimizer)
    module.double().float()
    optimizer.load_state_dict(optimizer.state_dict())
    flat.rebind()
    assert not flat.is_current()


def test_an_optimizer_of_other_parameters_is_refused():
    """It would step what nobody reads, and the module would never learn."""
    module = network()
    optimizer = torch.optim.Adam(module.parameters())
    replaced = network()
    replaced[0] = module[0]
    with pytest.raises(ValueError, match=r"holds 6 parameters that the module does not have, and lacks 6 .*2\.weight"):
        FlatParameters(replaced, optimizer)
    FlatParameters(replaced, torch.optim.Adam(replaced.parameters()))
    FlatParameters(replaced, torch.optim.Adam(replaced[0].parameters()))  # a part of the module may be meant


def test_optimizers_follow_parameters_that_are_made_again():
    module = network()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    train(module, optimizer, 2)
    moments, before = optimizer.state_dict(), all_parameters(module)
    for layer in (part for part in module if isinstance(part, nn.Linear)):
        layer.weight = nn.Parameter(layer.weight.detach().clone())
    follow_parameters([optimizer], before, all_parameters(module))
    assert {id(part) for part in optimizer.param_groups[0]["params"]} == {id(part) for part in module.parameters()}
    assert optimizer.state.keys() == set(module.parameters())
    weight = module[0].weight.detach().clone()
    train(module, optimizer, 1)
    assert not torch.equal(module[0].weight, weight)
    assert moments["state"][0]["step"] == 3  # the state went along
