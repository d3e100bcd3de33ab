"""DAAC: policy and value share nothing and are trained apart; files, resume, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from family import hybrid
from proximo import DAAC, PPO, make_vec_env
from proximo.augmentation import GaussianNoise
from proximo.exploration import RND
from proximo.networks.decoupled import DecoupledPolicy

SMALL = {"n_steps": 16, "batch_size": 32, "seed": 0, "policy_kwargs": {"net_arch": [8]}}


def cartpole(n_envs: int = 4):
    return make_vec_env("CartPole-v1", n_envs, seed=1)


def weights(model) -> torch.Tensor:
    return torch.cat([part.flatten() for part in model.policy.state_dict().values()])


def test_policy_and_value_have_no_parameter_in_common():
    policy = DAAC("MlpPolicy", cartpole(), **SMALL).policy
    actor, critic = policy.actor_parameters(), policy.critic_parameters()
    assert not {id(part) for part in actor} & {id(part) for part in critic}
    assert len(actor) + len(critic) == len(list(policy.parameters()))
    policy.zero_grad()
    policy.predict_values(torch.randn(3, 4)).sum().backward()
    assert all(part.grad is None or not part.grad.any() for part in actor)
    assert all(part.grad.any() for part in critic)


def test_a_policy_without_layers_of_its_own_trains():
    model = DAAC("MlpPolicy", cartpole(), **SMALL | {"policy_kwargs": {"net_arch": {"vf": [8]}}}).learn(64)
    assert [tuple(part.shape) for part in model.policy.advantage_net.parameters()] == [(1, 4 + 2), (1,)]


def test_steps_of_the_value_leave_the_policys_momentum_alone():
    """One optimiser holds both; what has no gradient stays, moments and counts too."""
    model = DAAC("MlpPolicy", cartpole(), n_epochs=1, value_epochs=3, **SMALL).learn(64)
    state = model.policy.optimizer.state
    steps = [{int(state[part]["step"]) for part in group} for group in (
        model.policy.actor_parameters(), model.policy.critic_parameters()
    )]  # fmt: skip
    assert steps == [{2}, {6}]  # two minibatches per epoch


def test_a_file_goes_on_where_it_was(tmp_path: Path):
    model = DAAC("MlpPolicy", cartpole(), value_frequency=2, **SMALL).learn(192)
    model.save_checkpoint(tmp_path / "daac.zip")
    loaded = DAAC.load(tmp_path / "daac.zip", env=cartpole())
    assert loaded.learner.updates == 3
    loaded.learn(128, reset_num_timesteps=False)
    model.learn(128, reset_num_timesteps=False)
    assert torch.equal(weights(loaded), weights(model))
    assert isinstance(PPO(DecoupledPolicy, cartpole(), **SMALL).learn(64).policy, DecoupledPolicy)


def test_hybrid_actions_are_read_part_by_part():
    """The advantage reads choices one-hot, counted from zero, and numbers as they are."""
    policy = DAAC("MlpPolicy", make_vec_env(hybrid, n_envs=4, seed=0), **SMALL).learn(64).policy
    kind, power, switches, choices = [1.0], [0.25, -0.25], [1.0, 0.0], [1.0, 2.0]
    (seen,) = torch.cat(list(policy._encoded(torch.tensor([kind + power + switches + choices]))), dim=1).tolist()
    assert seen == [0.0, 1.0, 0.0, *power, *switches, 0.0, 1.0, 0.0, 0.0, 1.0]
    assert policy.advantage_net[0].in_features == policy.features_dim + len(seen)


def test_an_augmentation_and_an_intrinsic_reward_join_in():
    model = DAAC(
        "MlpPolicy", cartpole(), augmentation=GaussianNoise(), aug_coef=0.5, intrinsic_reward=RND(), **SMALL
    ).learn(64)
    assert model.intrinsic_reward.global_step == 1
    assert np.isfinite(weights(model).numpy()).all()
    assert model.backend == "torch: DAAC trains policy and value apart"


def test_what_is_refused():
    with pytest.raises(ValueError, match="share nothing"):
        DAAC("MlpPolicy", cartpole(), policy_kwargs={"share_features_extractor": True})
    with pytest.raises(ValueError, match="policy with memory"):
        DAAC("MlpLstmPolicy", cartpole())
    with pytest.raises(ValueError, match="value of its own"):
        DAAC("MlpPolicy", cartpole(), intrinsic_reward=RND(own_value=True))
    with pytest.raises(ValueError, match="value_epochs is 0"):
        DAAC("MlpPolicy", cartpole(), value_epochs=0)


@pytest.mark.slow
def test_it_learns_cartpole():
    model = DAAC(
        "MlpPolicy", cartpole(8), n_steps=128, batch_size=256, n_epochs=4, learning_rate=2e-3, gamma=0.99, seed=1
    ).learn(200_000)
    from proximo import evaluate_policy

    assert evaluate_policy(model, cartpole(4), n_eval_episodes=20)[0] >= 475.0
