"""Masked actions: the same logits and masks give sb3-contrib's numbers, one distribution or one whole update."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib import MaskablePPO as OracleMaskablePPO
from sb3_contrib.common.maskable import distributions as oracle
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv as OracleVecEnv

from proximo import MaskablePPO
from proximo.envs import DummyVecEnv
from proximo.functional.actions import mask_groups
from proximo.networks.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    MaskableBernoulliDistribution,
    MultiCategoricalDistribution,
    make_proba_distribution,
)
from rounding import LOSSES, OUTPUTS, assert_same_training

from .conftest import RandomEnv

STEPS, ENVIRONMENTS = 12, 3
ACTIONS: dict[str, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(5),
    "multidiscrete": spaces.MultiDiscrete([2, 4, 3]),
    "multibinary": spaces.MultiBinary(4),
}


def ours_of(space: spaces.Space[Any]) -> Any:
    """The distribution that MaskablePPO's policy gives the space."""
    if isinstance(space, spaces.MultiBinary):
        return MaskableBernoulliDistribution(int(space.n))
    return make_proba_distribution(space)


def random_masks(space: spaces.Space[Any], rows: int, generator: np.random.Generator) -> np.ndarray:
    """Half of the actions forbidden, at least one of each choice allowed."""
    columns = []
    for size in mask_groups(space):
        group = generator.random((rows, size)) < 0.5
        group[np.arange(rows), generator.integers(size, size=rows)] = True
        columns.append(group)
    return np.concatenate(columns, axis=1)


@pytest.mark.parametrize("space", ACTIONS.values(), ids=ACTIONS)
@given(seed=st.integers(0, 2**16), scale=st.sampled_from([0.1, 1.0, 30.0]))
@settings(max_examples=40)
def test_distributions(space: spaces.Space[Any], seed: int, scale: float) -> None:
    """Log-probabilities of allowed actions, entropy, probabilities, mode and gradients."""
    generator = np.random.default_rng(seed)
    masks = random_masks(space, 6, generator)
    ours, theirs = ours_of(space), oracle.make_masked_proba_distribution(space)
    first = torch.tensor(generator.normal(0.0, scale, masks.shape), dtype=torch.float32, requires_grad=True)
    second = first.detach().clone().requires_grad_()
    ours.proba_distribution(first).apply_masking(torch.as_tensor(masks))
    theirs.proba_distribution(second).apply_masking(masks)
    torch.manual_seed(seed)
    actions = theirs.sample()
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions), **OUTPUTS)
    torch.testing.assert_close(ours.entropy(), theirs.entropy(), **OUTPUTS)
    assert torch.equal(ours.mode().reshape(6, -1), theirs.mode().reshape(6, -1))
    parts = ours.distribution if isinstance(ours.distribution, list) else [ours.distribution]
    their_parts = getattr(theirs, "distributions", None) or [theirs.distribution]
    probabilities = torch.cat([part.probs for part in parts], dim=1)
    expected = torch.cat([part.probs for part in their_parts], dim=1)
    torch.testing.assert_close(probabilities, expected, **OUTPUTS)
    assert not probabilities[torch.as_tensor(~masks)].any()
    for distribution in (ours, theirs):
        (distribution.log_prob(actions).sum() + 0.3 * distribution.entropy().sum()).backward()
    torch.testing.assert_close(first.grad, second.grad, **LOSSES)  # differences of probabilities and of logits
    assert first.grad[torch.as_tensor(~masks)].abs().sum() < 1e-5  # forbidden actions learn nothing


@given(seed=st.integers(0, 2**16))
def test_switches_with_one_logit_equal_those_with_two(seed: int) -> None:
    """PPO's own form of MultiBinary: the logit of a switch is the difference of the logits of on and off."""
    generator = np.random.default_rng(seed)
    masks = torch.as_tensor(random_masks(ACTIONS["multibinary"], 6, generator))
    pairs = torch.tensor(generator.normal(0.0, 2.0, (6, 4, 2)), dtype=torch.float32)
    two = MaskableBernoulliDistribution(4).proba_distribution(pairs.flatten(1))
    one = BernoulliDistribution(4).proba_distribution(pairs[:, :, 1] - pairs[:, :, 0])
    for distribution in (one, two):
        distribution.apply_masking(masks)
    actions = two.sample()
    torch.testing.assert_close(one.log_prob(actions.float()), two.log_prob(actions), **LOSSES)
    torch.testing.assert_close(one.entropy(), two.entropy(), **LOSSES)
    assert torch.equal(one.mode().long(), two.mode())
    drawn = one.sample().long()
    assert masks.reshape(6, 4, 2).gather(2, drawn.unsqueeze(2)).all()


SWITCHES = 400


@pytest.mark.parametrize("kind", ["discrete", "multidiscrete", "switches", "pairs of logits"])
@given(seed=st.integers(0, 2**16), scale=st.sampled_from([1.0, 1e3, 1e10, 1e30]))
@settings(max_examples=12)
def test_thousands_of_actions_and_extreme_logits(kind: str, seed: int, scale: float) -> None:
    """No NaN, no simplex error, and never a forbidden action, however unlikely the allowed ones were before."""
    generator = np.random.default_rng(seed)
    distribution: Any = {
        "discrete": CategoricalDistribution(5000),
        "multidiscrete": MultiCategoricalDistribution([3000, 2000]),
        "switches": BernoulliDistribution(SWITCHES),
        "pairs of logits": MaskableBernoulliDistribution(SWITCHES),
    }[kind]
    space = {"discrete": spaces.Discrete(5000), "multidiscrete": spaces.MultiDiscrete([3000, 2000])}.get(
        kind, spaces.MultiBinary(SWITCHES)
    )
    rows = 3
    masks = random_masks(space, rows, generator)
    if kind == "discrete":
        masks[0] = False
        masks[0, 4999] = True  # one way out
    width = distribution.parameter_width
    logits = torch.tensor(generator.normal(0.0, 1.0, (rows, width)) * scale, dtype=torch.float32, requires_grad=True)
    allowed = torch.as_tensor(masks)
    distribution.proba_distribution(logits).apply_masking(allowed)
    for actions in (distribution.sample(), distribution.mode()):
        log_prob = distribution.log_prob(actions)
        assert torch.isfinite(log_prob).all()
        if kind == "discrete":
            assert allowed.gather(1, actions.unsqueeze(1)).all()
        elif kind == "multidiscrete":
            assert allowed[:, :3000].gather(1, actions[:, :1]).all()
            assert allowed[:, 3000:].gather(1, actions[:, 1:]).all()
        else:
            assert allowed.reshape(rows, SWITCHES, 2).gather(2, actions.long().unsqueeze(2)).all()
    assert distribution.distribution is not None  # torch's own checks accept it
    (distribution.log_prob(distribution.sample()).sum() + distribution.entropy().sum()).backward()
    assert torch.isfinite(logits.grad).all()
    assert torch.isfinite(distribution.entropy()).all()
    if kind == "discrete":
        assert float(distribution.entropy()[0].detach()) == pytest.approx(0.0, abs=1e-6)


class MaskedEnv(RandomEnv):
    """Random observations; the masks of the parity tests are given beside."""

    def action_masks(self) -> np.ndarray:
        return np.ones(sum(mask_groups(self.action_space)), bool)


def fill(ours: MaskablePPO, theirs: OracleMaskablePPO, seed: int) -> None:
    random = np.random.default_rng(seed)
    space = ours.observation_space
    space.seed(seed)
    ours.rollout_buffer.reset()
    theirs.rollout_buffer.reset()
    rollout = ours.rollout_buffer.rollout
    starts = np.ones(ENVIRONMENTS, bool)
    kept = []
    for _ in range(STEPS):
        observation = np.stack([space.sample() for _ in range(ENVIRONMENTS)])
        masks = random_masks(ours.action_space, ENVIRONMENTS, random)
        kept.append(masks)
        with torch.no_grad():
            actions, values, log_prob = theirs.policy(torch.as_tensor(observation), action_masks=masks)
        values = values + torch.as_tensor(random.normal(0.0, 0.3, values.shape), dtype=torch.float32)
        log_prob = log_prob + torch.as_tensor(random.normal(0.0, 0.3, log_prob.shape), dtype=torch.float32)
        rewards = random.normal(0.0, 1.0, ENVIRONMENTS).astype(np.float32)
        stored = actions.numpy().reshape(ENVIRONMENTS, -1)
        theirs.rollout_buffer.add(observation, stored, rewards, starts, values, log_prob, action_masks=masks)
        ours.rollout_buffer.add(observation, stored, rewards, starts, values, log_prob)
        starts = random.random(ENVIRONMENTS) < 0.2
    rollout.action_masks = np.stack(kept)
    last = torch.as_tensor(random.normal(0.0, 1.0, ENVIRONMENTS), dtype=torch.float32)
    theirs.rollout_buffer.compute_returns_and_advantage(last.reshape(-1, 1), starts)
    ours.rollout_buffer.compute_returns_and_advantage(last, starts)


@pytest.mark.parametrize("options", [{}, {"clip_range_vf": 0.2, "batch_size": 12, "n_epochs": 3}], ids=["one", "many"])
@pytest.mark.parametrize("space", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_one_update(
    monkeypatch: pytest.MonkeyPatch, space: spaces.Space[Any], options: dict[str, Any], backend: str
) -> None:
    """The same weights, rollout and masks: losses and weights after the update, in one step or in nine."""
    observed = spaces.Box(-2.0, 2.0, (5,), np.float32)
    factories = [lambda: MaskedEnv(observed, space)] * ENVIRONMENTS
    settings = {"n_steps": STEPS, "batch_size": 36, "n_epochs": 1, "seed": 0, "ent_coef": 0.01, "device": "cpu"}
    settings |= options
    ours = MaskablePPO("MlpPolicy", DummyVecEnv(factories), backend=backend, **settings)
    theirs = OracleMaskablePPO("MlpPolicy", OracleVecEnv(factories), **settings)
    theirs.set_logger(configure(None, []))
    with torch.no_grad():
        for parameter in ours.policy.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    theirs.policy.load_state_dict(ours.policy.state_dict())
    fill(ours, theirs, seed=1)
    orders = [np.random.default_rng(epoch).permutation(STEPS * ENVIRONMENTS) for epoch in range(3)]
    mine, others = iter(orders), iter(orders)
    with monkeypatch.context() as patch:
        patch.setattr(ours, "generator", SimpleNamespace(permutation=lambda _: next(mine)))
        # our samples are numbered step by step, theirs environment by environment
        patch.setattr(
            np.random,
            "permutation",
            lambda _: (order := next(others)) % ENVIRONMENTS * STEPS + order // ENVIRONMENTS,
        )
        ours.train()
        theirs.train()
    assert_same_training(ours.policy, theirs.policy)
    for name, value in theirs.logger.name_to_value.items():
        if name.startswith("train/"):
            assert ours.logger.name_to_value[name] == pytest.approx(value, rel=LOSSES["rtol"], abs=LOSSES["atol"]), name


@pytest.mark.parametrize("space", ACTIONS.values(), ids=ACTIONS)
def test_predictions(space: spaces.Space[Any]) -> None:
    observed = spaces.Box(-2.0, 2.0, (5,), np.float32)
    ours = MaskablePPO("MlpPolicy", MaskedEnv(observed, space), n_steps=8, batch_size=8, seed=0)
    theirs = OracleMaskablePPO("MlpPolicy", MaskedEnv(observed, space), n_steps=8, batch_size=8, seed=1)
    assert list(ours.policy.state_dict()) == list(theirs.policy.state_dict())
    with torch.no_grad():
        for parameter in ours.policy.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    theirs.policy.load_state_dict(ours.policy.state_dict())
    random = np.random.default_rng(0)
    batch = random.normal(size=(7, 5)).astype(np.float32)
    masks = random_masks(space, 7, random)
    found, _ = ours.predict(batch, deterministic=True, action_masks=masks)
    expected, _ = theirs.predict(batch, deterministic=True, action_masks=masks)
    assert np.array_equal(found, expected)
    one, _ = ours.predict(batch[2], deterministic=True, action_masks=masks[2])
    assert np.array_equal(one, expected[2])
    assert not np.array_equal(found, ours.predict(batch, deterministic=True)[0])  # the masks made a difference
