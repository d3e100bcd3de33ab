"""Agents and intrinsic rewards of the compatibility packages with ``device=``: the CPU's parameters and rewards."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sim_device import replaced_parameters
from torch import Tensor, nn

from proximo import PPO as ProximoPPO
from proximo import make_vec_env
from proximo.exploration import RND
from proximo.hsuanwu.common.engine import OnPolicyTrainer
from proximo.rllte.agent import A2C, PPG, PPO
from proximo.rllte.env import make_rllte_env
from proximo.rllte.env.testing import make_discrete_env
from proximo.rllte.xploit.encoder import IdentityEncoder
from proximo.rllte.xploit.policy import OnPolicyDecoupledActorCritic
from proximo.rllte.xplore import reward as rewards
from proximo.rllte.xplore.augmentation import Identity, RandomShift

SMALL: dict[str, Any] = {"num_steps": 16, "batch_size": 16, "hidden_dim": 16}
PHASE: dict[str, Any] = {"policy_epochs": 2, "aux_epochs": 1, "num_aux_mini_batch": 2}
REWARDS = ["ICM", "RND", "RE3", "RIDE", "NGU", "PseudoCounts", "E3B", "Disagreement"]
DEVICES = ("cpu", "sim")


def cartpole(device: str) -> Any:
    return make_rllte_env("CartPole-v1", num_envs=2, seed=1, device=device, asynchronous=False)


def weights(module: nn.Module) -> Tensor:
    return torch.cat([value.flatten().cpu() for value in module.state_dict().values()])


def assert_same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one.cpu(), other.cpu(), atol=1e-6, rtol=0.0)


def make_agent(kind: Any, device: str, env: Any = None, augmentation: Any = None, **options: Any) -> Any:
    agent = kind(cartpole(device) if env is None else env, device=device, seed=3, **SMALL | options)
    agent.set(augmentation=augmentation or Identity())  # keeps the fused backend from the agent on the CPU
    return agent


@pytest.mark.parametrize(("kind", "options"), [(PPO, {"n_epochs": 2}), (A2C, {"n_epochs": 1}), (PPG, PHASE)])
def test_agents_of_rllte(kind: Any, options: dict[str, Any], tmp_path: Path) -> None:
    trained = []
    for device in DEVICES:
        agent = make_agent(kind, device, **options)
        agent.train(num_train_steps=64)
        agent.save(tmp_path / f"{device}.zip")
        again = make_agent(kind, device, **options)
        again.load(tmp_path / f"{device}.zip")
        assert torch.equal(weights(again.policy), weights(agent.policy))
        again.train(num_train_steps=128)
        trained += [agent, again]
    assert next(trained[2].policy.parameters()).device.type == "sim"
    assert_same(weights(trained[2].policy), weights(trained[0].policy))
    assert_same(weights(trained[3].policy), weights(trained[1].policy))
    assert not torch.allclose(weights(trained[3].policy), weights(trained[2].policy), atol=1e-4)


@pytest.mark.parametrize("observations", ["PixelObsEnv", "DictObsEnv"])
def test_other_observations_of_rllte(observations: str) -> None:
    trained = []
    for device in DEVICES:
        env = make_discrete_env(observations, num_envs=2, device=device, asynchronous=False)
        shift = RandomShift(4).to(device)
        augmentation = shift if observations == "PixelObsEnv" else {"image": shift}
        agent = make_agent(
            PPO, device, env, augmentation, num_steps=4, batch_size=8, hidden_dim=8, feature_dim=16, n_epochs=1
        )
        agent.train(num_train_steps=16)
        trained.append(weights(agent.policy))
    assert_same(*trained)


def test_optimizers_of_rllte_follow_parameters_that_are_made_again() -> None:
    env = cartpole("sim")
    with replaced_parameters():
        agent = PPO(env, device="sim", seed=3, feature_dim=4, **SMALL)
        policy = OnPolicyDecoupledActorCritic(env.observation_space, env.action_space, feature_dim=4, hidden_dim=8)
        agent.set(encoder=IdentityEncoder(env.observation_space, 4), policy=policy)
        agent.freeze()
    held = [part for known in policy.optimizers.values() for group in known.param_groups for part in group["params"]]
    assert {id(part) for part in held} == {id(part) for part in policy.parameters()}
    assert {part.device.type for part in held} == {"sim"}


def test_the_trainer_of_hsuanwu() -> None:
    trained = []
    for device in DEVICES:
        cfgs = {
            "device": device,
            "seed": 2,
            "num_train_steps": 64,
            "num_steps": 16,
            "num_test_episodes": 1,
            "encoder": {"name": "VanillaMlpEncoder", "feature_dim": 8},
            "learner": {"name": "PPGLearner", "hidden_dim": 8, "num_policy_mini_batch": 2} | PHASE,
            "storage": {"name": "VanillaRolloutStorage"},
        }
        trainer = OnPolicyTrainer(cfgs, cartpole(device), cartpole(device))
        before = weights(trainer.learner.network)
        trainer.train()
        assert trainer.learner.network.device.type == device
        assert not torch.allclose(weights(trainer.learner.network), before, atol=1e-4)
        trained.append(weights(trainer.learner.network))
    assert_same(*trained)


def rollout(space: spaces.Box, steps: int, device: str) -> dict[str, Tensor]:
    generator = np.random.default_rng(0)
    states = generator.normal(size=(steps + 1, 2, *space.shape)).astype(np.float32)
    if space.dtype == np.uint8:
        states = generator.integers(0, 256, states.shape, dtype=np.uint8)
    parts = {
        "observations": states[:-1],
        "next_observations": states[1:],
        "actions": generator.integers(0, 4, (steps, 2)),
        "rewards": np.zeros((steps, 2), np.float32),
        "terminateds": (generator.random((steps, 2)) < 0.2).astype(np.float32),
        "truncateds": np.zeros((steps, 2), np.float32),
    }
    return {name: torch.as_tensor(part, device=device) for name, part in parts.items()}


@pytest.mark.parametrize("name", REWARDS)
@pytest.mark.parametrize("space", [spaces.Box(-10.0, 10.0, (3,)), spaces.Box(0, 255, (3, 36, 36), np.uint8)])
def test_intrinsic_rewards(name: str, space: spaces.Box) -> None:
    envs = SimpleNamespace(observation_space=space, action_space=spaces.Discrete(4), num_envs=2)
    found = []
    for device in DEVICES:
        torch.manual_seed(0)
        reward = getattr(rewards, name)(envs=envs, device=device)
        samples = rollout(space, 8, device)
        computed = [reward.compute(samples)]
        again = getattr(rewards, name)(envs=envs, device=device)
        again.load_state_dict(reward.state_dict())
        computed += [reward.compute(samples), again.compute(samples, sync=False)]
        assert {part.device.type for part in computed} == {device}
        found.append(torch.stack([part.cpu() for part in computed]))
    assert found[0].abs().sum() > 0
    torch.testing.assert_close(found[1], found[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("own_value", [False, True])
def test_an_intrinsic_reward_trains_a_policy_on_the_device(own_value: bool) -> None:
    trained = []
    for device in DEVICES:
        env = make_vec_env("CartPole-v1", n_envs=2, seed=1)
        small = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "seed": 3}
        reward = RND(extrinsic_coef=0.0, own_value=own_value)
        model = ProximoPPO("MlpPolicy", env, **small, device=device, backend="torch", intrinsic_reward=reward)
        model.learn(64)
        trained.append(weights(model.policy))
    assert_same(*trained)
