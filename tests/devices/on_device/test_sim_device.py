"""The simulated device behaves as CUDA does where that matters: refusals, transfers, random numbers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sim_device import SimTensor, count_transfers, own_generator
from torch import Tensor, nn


def ones(*shape: int) -> Tensor:
    return torch.ones(shape, device="sim")


OTHER_DEVICE = "found at least two devices, sim:0 and cpu"


@pytest.mark.parametrize(
    "operation",
    [
        lambda: ones(3) + torch.ones(3),
        lambda: torch.ones(3) * ones(3),
        lambda: ones(2, 2) @ torch.ones(2, 2),
        lambda: torch.cat([ones(2), torch.ones(2)]),
        lambda: torch.stack([ones(), torch.ones(())]),
        lambda: ones(3).index_select(0, torch.tensor([1])),
        lambda: nn.Linear(2, 2)(ones(1, 2)),
        lambda: torch.ones(()).add_(ones()),
        lambda: torch.where(ones(2) > 0, torch.ones(2), ones(2)),
    ],
)
def test_operands_of_two_devices_are_refused(operation):
    with pytest.raises(RuntimeError, match=OTHER_DEVICE):
        operation()


def test_a_cpu_number_is_taken_where_cuda_takes_it():
    assert (ones(3) * torch.tensor(2.0)).tolist() == [2.0] * 3
    assert torch.where(ones(2) > 0, torch.tensor(5.0), ones(2)).tolist() == [5.0] * 2
    assert ones(3)[torch.tensor([0, 2])].tolist() == [1.0] * 2  # indices may be the CPU's


@pytest.mark.parametrize("steps", ["cpu", "sim"])
def test_the_fused_optimizer_wants_its_steps_on_the_device(steps):
    weight = nn.Parameter(ones(3))
    optimizer = torch.optim.Adam([weight], lr=0.1, fused=True)
    optimizer.state[weight] = {
        "step": torch.zeros((), device=steps),
        "exp_avg": torch.zeros(3, device="sim"),
        "exp_avg_sq": torch.zeros(3, device="sim"),
    }
    weight.grad = ones(3)
    if steps == "cpu":
        with pytest.raises(RuntimeError, match=OTHER_DEVICE):
            optimizer.step()
    else:
        optimizer.step()
        np.testing.assert_allclose(weight.tolist(), 0.9, rtol=1e-6)


def test_numpy_needs_a_copy():
    with pytest.raises(TypeError, match=r"Tensor\.cpu\(\)"):
        ones(2).numpy()
    with pytest.raises(TypeError, match=r"Tensor\.cpu\(\)"):
        np.asarray(ones(2))
    assert ones(2).cpu().numpy().tolist() == [1.0, 1.0]


def test_transfers_are_counted_each_way():
    on_device, on_cpu = ones(3), torch.ones(3)
    with count_transfers() as transfers:
        _ = on_cpu.to("sim"), torch.as_tensor(np.ones(2), device="sim"), torch.tensor(1.0, device="sim")
        on_device.copy_(on_cpu)
        _ = on_device[torch.tensor([0])]
    assert (len(transfers.copies_in), len(transfers.copies_out)) == (5, 0)
    with count_transfers() as transfers:
        on_cpu.copy_(on_device)
        _ = on_device.cpu(), on_device.tolist(), float(on_device.sum()), on_device[0].item()
        _ = on_device[on_device > 0], on_device.nonzero()  # CUDA waits for how many there are
        _ = bool(torch.isfinite(on_device).all())
    assert (len(transfers.copies_in), len(transfers.copies_out)) == (0, 8), transfers


def test_what_stays_on_the_device_is_no_transfer():
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to("sim")
    optimizer = torch.optim.Adam(module.parameters(), fused=True)
    with count_transfers() as transfers:
        for _ in range(3):
            loss = (module(torch.rand(5, 3, device="sim")) * 2.0 - torch.zeros(1, device="sim")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert transfers.copies_in == transfers.copies_out == []


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_gradients_are_the_cpus(kind):
    torch.manual_seed(0)
    network, inputs = kind(3, 4), torch.randn(5, 2, 3)
    twin = copy.deepcopy(network).to("sim")
    network(inputs)[0].square().sum().backward()
    twin(inputs.to("sim"))[0].square().sum().backward()
    for one, other in zip(network.parameters(), twin.parameters(), strict=True):
        assert isinstance(other, SimTensor)
        torch.testing.assert_close(other.grad.cpu(), one.grad, atol=1e-6, rtol=0.0)


def test_it_can_have_a_generator_of_its_own():
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    assert torch.equal(torch.rand(3, device="sim").cpu(), expected)  # without one it draws from the CPU's
    with own_generator(seed=4):
        torch.manual_seed(9)
        of_cpu = torch.rand(3)
        torch.manual_seed(9)  # seeds every device
        assert torch.equal(torch.rand(3, device="sim").cpu(), of_cpu)
        assert torch.equal(torch.rand(3), of_cpu)  # which the device's draw has left alone
        state = torch.sim.get_rng_state()
        drawn = torch.rand(3, device="sim").cpu()
        torch.sim.set_rng_state(state)
        assert torch.equal(torch.rand(3, device="sim").cpu(), drawn)
