"""TensorFlow's RMSprop against Stable-Baselines3's."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike as Oracle
from torch import nn

from proximo import A2C
from proximo.files.encoding import decode, encode
from proximo.networks.optimizers import RMSpropTFLike

OPTIONS = [
    {"momentum": momentum, "centered": centered, "weight_decay": weight_decay, "alpha": alpha, "eps": eps}
    for momentum, centered, weight_decay, (alpha, eps) in itertools.product(
        (0.0, 0.9), (False, True), (0.0, 0.1), ((0.99, 1e-8), (0.9, 1e-3))
    )
]


def pair_of_networks() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    theirs = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def descend(network: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor) -> None:
    optimizer.zero_grad()
    network(inputs).square().mean().backward()
    optimizer.step()


def assert_equal_weights(ours: nn.Module, theirs: nn.Module) -> None:
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps(options: dict[str, Any]) -> None:
    ours, theirs = pair_of_networks()
    mine, other = RMSpropTFLike(ours.parameters(), lr=3e-3, **options), Oracle(theirs.parameters(), lr=3e-3, **options)
    for _ in range(20):
        inputs = torch.randn(8, 4)
        descend(ours, mine, inputs)
        descend(theirs, other, inputs)
    assert_equal_weights(ours, theirs)


def test_first_step_by_hand() -> None:
    """v = 0.99 · 1 + 0.01 · 2² = 1.03, so the step is 0.1 · 2 / √(1.03 + 0.05)."""
    weight = nn.Parameter(torch.tensor([5.0]))
    weight.grad = torch.tensor([2.0])
    optimizer = RMSpropTFLike([weight], lr=0.1, eps=0.05)
    optimizer.step()
    assert weight.item() == pytest.approx(5.0 - 0.2 / 1.08**0.5, abs=1e-6)
    assert optimizer.state[weight]["square_avg"].item() == pytest.approx(1.03)


def test_parameters_without_gradient_and_groups() -> None:
    ours, theirs = pair_of_networks()
    groups = [[{"params": net[0].parameters(), "lr": 0.1}, {"params": net[2].parameters()}] for net in (ours, theirs)]
    mine, other = RMSpropTFLike(groups[0]), Oracle(groups[1])
    for network, optimizer in ((ours, mine), (theirs, other)):
        network[0].bias.requires_grad = False
        descend(network, optimizer, torch.ones(3, 4))
    assert_equal_weights(ours, theirs)


@pytest.mark.parametrize("swap", [False, True])
def test_state_moves_to_stable_baselines3_and_back(swap: bool) -> None:
    ours, theirs = pair_of_networks()
    options = {"lr": 1e-2, "momentum": 0.5, "centered": True}
    mine, other = RMSpropTFLike(ours.parameters(), **options), Oracle(theirs.parameters(), **options)
    for inputs in (torch.ones(2, 4), torch.randn(2, 4)):
        descend(ours, mine, inputs)
        descend(theirs, other, inputs)
    if swap:
        mine_state, other_state = mine.state_dict(), other.state_dict()
        mine.load_state_dict(other_state)
        other.load_state_dict(mine_state)
    descend(ours, mine, inputs)
    descend(theirs, other, inputs)
    assert_equal_weights(ours, theirs)


def test_closure() -> None:
    weight = nn.Parameter(torch.tensor([3.0]))
    optimizer = RMSpropTFLike([weight])

    def closure() -> float:
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) == 9.0
    assert weight.item() < 3.0


@pytest.mark.parametrize("option", ["lr", "alpha", "eps", "weight_decay", "momentum"])
def test_negative_numbers_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match=rf"{option} is -1\.0"):
        RMSpropTFLike([nn.Parameter(torch.zeros(1))], **{option: -1.0})


def test_model_files(tmp_path: Any) -> None:
    """Class and averages survive the file: both models go on alike."""
    assert decode(encode(RMSpropTFLike)) is RMSpropTFLike
    arguments = {"optimizer_class": RMSpropTFLike, "optimizer_kwargs": {"eps": 1e-5, "momentum": 0.3}}
    model = A2C("MlpPolicy", "CartPole-v1", policy_kwargs=arguments, seed=0).learn(50)
    model.save(tmp_path / "model")
    loaded = A2C.load(tmp_path / "model", env="CartPole-v1")
    saved, found = (agent.policy.optimizer.state_dict()["state"] for agent in (model, loaded))
    assert saved[0].keys() == found[0].keys() == {"step", "square_avg", "momentum_buffer"}
    for index, state in saved.items():
        for name, value in state.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(found[index][name]))
    loaded.learn(10)
    assert int(loaded.policy.optimizer.state_dict()["state"][0]["step"]) == 12
