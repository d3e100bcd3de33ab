"""DAAC, DrAC and DrDAAC: one update by numbers, and what users' own agents ask of the same modules."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import kl_divergence

from proximo.rllte.agent import A2C, DAAC, PPG, PPO, DrAC, DrDAAC
from proximo.rllte.common.prototype import OnPolicyAgent
from proximo.rllte.env import make_rllte_env
from proximo.rllte.env.testing import make_box_env, make_multidiscrete_env
from proximo.rllte.xploit.encoder import IdentityEncoder
from proximo.rllte.xploit.policy import OnPolicyDecoupledActorCritic, OnPolicySharedActorCritic
from proximo.rllte.xploit.storage import VanillaRolloutStorage
from proximo.rllte.xplore.distribution import Categorical


def prepared(agent: Any) -> tuple[Any, Any, torch.optim.Adam, dict[str, torch.Tensor]]:
    """An agent with a rollout, a twin of its network and optimiser, the agent's generator, and the rollout flat."""
    agent.train(num_train_steps=256)
    with torch.no_grad():
        agent.policy(torch.zeros(1, 4), training=False)  # a distribution without a graph, so that it can be copied
    twin, generator = copy.deepcopy(agent.policy.network), copy.deepcopy(agent.generator)
    optimizer = torch.optim.Adam(twin.parameters(), lr=agent.lr, eps=agent.eps)
    optimizer.load_state_dict(copy.deepcopy(agent.policy.network.optimizer.state_dict()))
    # values that are far from what they were, so that both sides of the clipping occur
    agent.storage.buffer.rollout.values += np.random.default_rng(0).normal(0.0, 0.3, (64, 4)).astype(np.float32)
    names = ("actions", "values", "returns", "log_probs", "advantages")
    flat = {name: getattr(agent.storage, name).flatten().clone() for name in names}
    flat["observations"] = agent.storage.observations[:-1].reshape(-1, 4).clone()
    return twin, generator, optimizer, flat


def step(optimizer: torch.optim.Adam, loss: torch.Tensor, parameters: list[nn.Parameter]) -> None:
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 0.5)
    optimizer.step()


class Doubled(nn.Module):
    """An augmentation that can be computed by hand."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2.0 * x


@pytest.mark.parametrize("kind", [DAAC, DrDAAC])
def test_an_update_of_daac_descends_its_two_losses(kind, cartpole):
    agent = kind(cartpole(), num_steps=64, batch_size=128, hidden_dim=16, policy_epochs=2, value_epochs=3, lr=1e-2)
    if kind is DrDAAC:
        agent.set(augmentation=Doubled())
    twin, generator, optimizer, flat = prepared(agent)
    metrics = agent.update()
    actor, critic = twin.actor_parameters(), twin.critic_parameters()
    totals: dict[str, list[float]] = {"policy_loss": [], "adv_loss": [], "value_loss": []}
    for rows in [part for _ in range(2) for part in torch.as_tensor(generator.permutation(256)).split(128)]:
        obs, actions, advantages = flat["observations"][rows], flat["actions"][rows], flat["advantages"][rows]
        found = twin.evaluate_actor(obs, actions)
        ratio = (found.log_prob - flat["log_probs"][rows]).exp()
        policy_loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        adv_loss = (found.advantages - advantages).square().mean()
        loss = policy_loss + 0.25 * adv_loss - 0.01 * found.entropy.mean()
        if kind is DrDAAC:
            plain = torch.distributions.Categorical(logits=twin.get_distribution(obs).distribution.logits.detach())
            changed = torch.distributions.Categorical(logits=twin.get_distribution(2.0 * obs).distribution.logits)
            loss = loss + 0.1 * kl_divergence(plain, changed).mean()
        step(optimizer, loss, actor)
        totals["policy_loss"].append(policy_loss.item())
        totals["adv_loss"].append(adv_loss.item())
    for rows in [part for _ in range(3) for part in torch.as_tensor(generator.permutation(256)).split(128)]:
        obs, old, returns = flat["observations"][rows], flat["values"][rows], flat["returns"][rows]
        values = twin.predict_values(obs).flatten()
        clipped = old + (values - old).clamp(-0.2, 0.2)
        error = torch.max((values - returns).square(), (clipped - returns).square()).mean()
        loss = 0.5 * 0.5 * error
        if kind is DrDAAC:
            loss = loss + 0.1 * (values.detach() - twin.predict_values(2.0 * obs).flatten()).square().mean()
        step(optimizer, loss, critic)
        totals["value_loss"].append(0.5 * error.item())
    for one, other in zip(agent.policy.network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-3)
    for name, values in totals.items():
        assert metrics[f"train/{name}"] == pytest.approx(np.mean(values), rel=1e-3, abs=1e-4)


def test_an_update_of_drac_descends_ppos_loss_on_plain_observations(cartpole):
    agent = DrAC(cartpole(), num_steps=64, batch_size=128, hidden_dim=16, n_epochs=2, lr=1e-2, aug_coef=0.3)
    agent.set(augmentation=Doubled())
    twin, generator, optimizer, flat = prepared(agent)
    agent.update()
    for rows in [part for _ in range(2) for part in torch.as_tensor(generator.permutation(256)).split(128)]:
        obs, old, returns = flat["observations"][rows], flat["values"][rows], flat["returns"][rows]
        values, log_probs, entropy = twin.evaluate_actions(obs, flat["actions"][rows])
        ratio = (log_probs - flat["log_probs"][rows]).exp()
        advantages, values = flat["advantages"][rows], values.flatten()
        policy_loss = -torch.min(ratio * advantages, ratio.clamp(0.9, 1.1) * advantages).mean()
        clipped = old + (values - old).clamp(-0.1, 0.1)
        error = torch.max((values - returns).square(), (clipped - returns).square()).mean()
        plain = torch.distributions.Categorical(logits=twin.get_distribution(obs).distribution.logits.detach())
        changed = torch.distributions.Categorical(logits=twin.get_distribution(2.0 * obs).distribution.logits)
        distance = (values.detach() - twin.predict_values(2.0 * obs).flatten()).square().mean()
        loss = policy_loss + 0.25 * error - 0.01 * entropy.mean()
        step(optimizer, loss + 0.3 * (kl_divergence(plain, changed).mean() + distance), list(twin.parameters()))
    for one, other in zip(agent.policy.network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-3)


@pytest.mark.parametrize("make_env", [make_box_env, make_multidiscrete_env])
@pytest.mark.parametrize("observations", ["StateObsEnv", "PixelObsEnv"])
def test_daac_takes_other_actions_and_images(make_env, observations):
    env = make_env(observations, num_envs=2, asynchronous=False)
    agent = DAAC(env, num_steps=4, batch_size=8, hidden_dim=8, feature_dim=16)
    agent.train(num_train_steps=16)
    assert all(np.isfinite(value) for value in agent.metrics.values())
    assert set(agent.policy.actor_params) & set(agent.policy.critic_params) == set()
    assert len(agent.policy.actor_params) + len(agent.policy.critic_params) == len(list(agent.policy.parameters()))


def test_value_freq_leaves_the_value_alone_in_between(cartpole):
    agent = DAAC(cartpole(), num_steps=16, batch_size=32, hidden_dim=8, value_freq=2, lr=1e-2)
    seen = []
    for _ in range(4):
        agent.train(num_train_steps=64)
        seen.append(agent.policy.network.value_net.weight.clone())
    assert [torch.equal(one, other) for one, other in pairwise(seen)] == [True, False, True]


def test_arguments_are_described_in_the_docstring():
    for kind in (A2C, PPO, PPG, DAAC, DrAC, DrDAAC):
        assert "arxiv.org" in kind.__doc__
        for name in ("num_steps", "feature_dim", "ent_coef", "init_fn"):
            assert f"        {name} (default " in kind.__doc__
    assert "policy_epochs (default 32): Rollouts, and updates of the policy phase," in PPG.__doc__
    assert "policy_epochs (default 1): Passes of the policy over each rollout." in DAAC.__doc__


class OwnPhases(OnPolicyAgent):
    """Phases by hand, with what rllte gives its users for it: stored observations, policy outputs, KL, aux values."""

    divergences: tuple[float, ...] = ()

    def __init__(self, env: Any, num_steps: int) -> None:
        super().__init__(env, num_steps=num_steps)
        self.set(
            encoder=IdentityEncoder(env.observation_space, feature_dim=4),
            policy=OnPolicySharedActorCritic(
                env.observation_space, env.action_space, 4, 16, opt_kwargs={"lr": 1e-2}, aux_critic=True
            ),
            storage=VanillaRolloutStorage(
                env.observation_space, env.action_space, storage_size=num_steps, batch_size=64, num_envs=env.num_envs
            ),
            distribution=Categorical(),
        )

    def update(self) -> None:
        self.number = self.global_episode // self.num_envs
        observations = self.storage.observations[:-1].reshape(-1, 4)
        assert self.storage.observations.shape == (self.num_steps + 1, self.num_envs, 4)
        with torch.no_grad():
            old = self.dist(self.policy.get_policy_outputs(observations))
        for _ in range(5):
            new, values, auxiliary = self.policy.get_dist_and_aux_value(observations)
            returns = self.storage.returns.reshape(-1, 1)
            self.policy.optimizers["opt"].zero_grad(set_to_none=True)
            ((values - returns).square().mean() + (auxiliary - returns).square().mean()).backward()
            self.policy.optimizers["opt"].step()
        self.divergences = (*self.divergences, kl_divergence(old, new).mean().item())
        self.logger.record("train/aux_value_loss", (auxiliary - returns).square().mean().item())


def test_an_own_agent_has_what_rlltes_phases_need(cartpole):
    agent = OwnPhases(cartpole(), num_steps=16)
    agent.train(num_train_steps=192)
    assert agent.number == 2  # updates before this one, times the environments, is what rllte counts as episodes
    assert agent.global_episode == 12
    assert all(value > 0.0 for value in agent.divergences)
    assert agent.metrics.keys() == {"train/aux_value_loss"}


class OwnDecoupled(OnPolicyAgent):
    """Two optimisers, stepped one after the other."""

    def __init__(self, env: Any) -> None:
        super().__init__(env, num_steps=16)
        self.set(
            encoder=IdentityEncoder(env.observation_space, feature_dim=4),
            policy=OnPolicyDecoupledActorCritic(env.observation_space, env.action_space, 4, 16),
            storage=VanillaRolloutStorage(
                env.observation_space, env.action_space, storage_size=16, batch_size=64, num_envs=env.num_envs
            ),
        )

    def update(self) -> dict[str, float]:
        for batch in self.storage.sample():
            advantages, values, log_probs, _ = self.policy.evaluate_actions(batch.observations, batch.actions)
            losses = {
                "actor_opt": (advantages.flatten() - batch.adv_targ).square().mean() - log_probs.mean(),
                "critic_opt": (values.flatten() - batch.returns).square().mean(),
            }
            for name, parameters in (
                ("actor_opt", self.policy.actor_params),
                ("critic_opt", self.policy.critic_params),
            ):
                self.policy.optimizers[name].zero_grad(set_to_none=True)
                losses[name].backward()
                nn.utils.clip_grad_norm_(parameters, 0.5)
                self.policy.optimizers[name].step()
        return {"train/value_loss": losses["critic_opt"].item()}


def test_an_own_agent_goes_on_with_both_of_its_optimisers(cartpole):
    first = OwnDecoupled(cartpole())
    first.train(num_train_steps=128)
    path = first.save("own")
    first.train(num_train_steps=128)
    second = OwnDecoupled(cartpole())
    second.load(path)
    second.train(num_train_steps=128)
    for one, other in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert torch.equal(one, other)


LEARNING: dict[Any, dict[str, Any]] = {
    A2C: {"n_epochs": 4, "lr": 1e-3},
    PPO: {"lr": 2e-3, "clip_range": 0.2},
    PPG: {"lr": 2e-3, "policy_epochs": 8},
    DAAC: {"lr": 2e-3, "policy_epochs": 4},
    DrAC: {"lr": 2e-3, "clip_range": 0.2},
    DrDAAC: {"lr": 2e-3, "policy_epochs": 4},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEARNING, ids=lambda kind: kind.__name__)
def test_every_agent_learns_cartpole(kind: Any) -> None:
    env, eval_env = (make_rllte_env("CartPole-v1", 8, seed=seed, asynchronous=False) for seed in (1, 99))
    options = {"num_steps": 128, "batch_size": 256, "hidden_dim": 64, "discount": 0.99} | LEARNING[kind]
    agent = kind(env, eval_env, **options)
    agent.train(num_train_steps=250_000, eval_interval=10_000, anneal_lr=True)
    assert agent.eval(20)["episode_reward"] >= 475.0
