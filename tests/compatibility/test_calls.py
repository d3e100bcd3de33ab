"""Calls that scripts make beside the main ones, with the arguments and results of the real libraries."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib.common.maskable.distributions as real_masked
import stable_baselines3 as real
import torch
from gymnasium import spaces
from stable_baselines3.common import distributions as real_distributions
from stable_baselines3.common import preprocessing as real_preprocessing

from proximo import PPO, RecurrentPPO, make_vec_env
from proximo.sb3.common import distributions, policies, preprocessing, utils
from proximo.sb3.common.buffers import RolloutBuffer
from proximo.sb3.common.monitor import LoadMonitorResultsError, load_results
from proximo.sb3.common.running_mean_std import RunningMeanStd
from proximo.sb3.common.torch_layers import FlattenExtractor
from proximo.sb3_contrib.common.maskable import distributions as masked
from proximo.sb3_contrib.common.maskable import policies as masked_policies
from proximo.sb3_contrib.common.recurrent import policies as recurrent_policies
from proximo.sb3_contrib.common.recurrent.buffers import RecurrentRolloutBuffer

LOGITS = torch.tensor([[0.1, 0.7, -0.3]])


@pytest.mark.parametrize("as_array", [True, False])
def test_a_mask_takes_the_place_of_the_last_one(as_array: bool) -> None:
    ours = masked.MaskableCategoricalDistribution(3).proba_distribution(LOGITS)
    theirs = real_masked.MaskableCategoricalDistribution(3).proba_distribution(LOGITS)
    for mask in (np.array([[True, False, True]]), np.array([[True, True, False]]), None):
        for distribution in (ours, theirs):
            distribution.apply_masking(mask if as_array or mask is None else torch.as_tensor(mask))
        torch.testing.assert_close(ours.distribution.probs, theirs.distribution.probs)


@pytest.mark.parametrize(
    ("name", "arguments"), [("MaskableMultiCategoricalDistribution", [2, 3]), ("MaskableBernoulliDistribution", 2)]
)
def test_masks_of_several_choices_are_replaced_too(name: str, arguments: Any) -> None:
    ours, theirs = (getattr(module, name)(arguments) for module in (masked, real_masked))
    width = 5 if isinstance(arguments, list) else 4
    parameters = torch.randn(1, width, generator=torch.Generator().manual_seed(0))
    for distribution in (ours, theirs):
        distribution.proba_distribution(parameters)
    for mask in (np.array([[True, False] * 3])[:, :width], np.array([[False, True] * 3])[:, :width], None):
        mask = None if mask is None else np.where(np.arange(width) == width - 1, True, mask)
        ours.apply_masking(mask)
        theirs.apply_masking(mask)
        torch.testing.assert_close(ours.entropy(), theirs.entropy())


def test_actions_from_parameters() -> None:
    mean, log_std = torch.tensor([[0.5, -1.0]]), torch.zeros(2)
    for ours, theirs, given in (
        (distributions.DiagGaussianDistribution(2), real_distributions.DiagGaussianDistribution(2), (mean, log_std)),
        (distributions.CategoricalDistribution(3), real_distributions.CategoricalDistribution(3), (LOGITS,)),
    ):
        torch.testing.assert_close(ours.actions_from_params(*given, True), theirs.actions_from_params(*given, True))
    categorical = distributions.CategoricalDistribution(3)
    assert categorical.actions_from_params(action_logits=LOGITS, deterministic=True).tolist() == [1]


def test_parameter_names() -> None:
    box, discrete = spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(4)
    for module in (preprocessing, real_preprocessing):
        assert module.get_obs_shape(observation_space=box) == (3,)
        assert module.get_flattened_obs_dim(observation_space=discrete) == 4
        assert module.get_action_dim(action_space=discrete) == 1
        assert not module.is_image_space(observation_space=box)
        module.check_for_nested_spaces(obs_space=box)
    assert utils.explained_variance(y_pred=np.arange(3.0), y_true=np.arange(3.0)) == 1.0
    statistics = RunningMeanStd(shape=(1,))
    statistics.update(arr=np.ones((4, 1)))
    assert statistics.mean == pytest.approx(1.0, abs=1e-3)


def test_arrays_of_a_buffer_can_be_assigned() -> None:
    buffer = RolloutBuffer(4, spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), device="cpu", n_envs=2)
    buffer.rewards += 1.0
    buffer.values = np.full((4, 2), 2.0)
    assert (buffer.rollout.rewards == 1.0).all()
    assert (buffer.rollout.values == 2.0).all()


def test_one_action_is_an_array_without_dimensions() -> None:
    observation = np.zeros(4, np.float32)
    for model in (PPO("MlpPolicy", "CartPole-v1"), real.PPO("MlpPolicy", "CartPole-v1", device="cpu")):
        action, _ = model.predict(observation)
        assert isinstance(action, np.ndarray)
        assert action.shape == ()
    action, _ = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=8, batch_size=8).predict(observation)
    assert isinstance(action, np.ndarray)
    gym.make("CartPole-v1").action_space.contains(action)


def test_layers_in_the_old_form() -> None:
    layers = {"pi": [16], "vf": [8]}
    old, new = (
        PPO("MlpPolicy", "CartPole-v1", seed=0, policy_kwargs={"net_arch": form}).policy.state_dict()
        for form in ([layers], layers)
    )
    assert all(torch.equal(old[name], new[name]) for name in new)


def test_a_recurrent_policy_predicts_with_its_memory() -> None:
    policy = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=8, batch_size=8, seed=0).policy
    zero = tuple(torch.zeros(1, 1, 256) for _ in range(2))
    actions, memory = policy._predict(torch.ones(1, 4), zero, torch.ones(1), True)
    assert actions.shape == (1,)
    assert memory[0].abs().sum() > 0.0


def test_folders_that_cannot_be_used(tmp_path: Any) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(OSError, match=r"cannot write the episode statistics to .*monitor_dir"):
        make_vec_env("CartPole-v1", monitor_dir=str(blocked / "inside"))
    with pytest.raises(LoadMonitorResultsError):
        load_results(str(tmp_path))


POSITIONAL = [[16], torch.nn.ReLU, False]  # net_arch, activation_fn, ortho_init
NOISE = [False, 0.0, True, False, False]
EXTRACTOR = [FlattenExtractor, None, True, True, torch.optim.Adam, {"eps": 1e-6}]


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (policies.ActorCriticPolicy, NOISE),
        (policies.ActorCriticCnnPolicy, NOISE),
        (recurrent_policies.RecurrentActorCriticPolicy, NOISE),
        (recurrent_policies.RecurrentActorCriticCnnPolicy, NOISE),
        (masked_policies.MaskableActorCriticPolicy, []),
        (masked_policies.MaskableActorCriticCnnPolicy, []),
    ],
)
def test_policies_take_their_arguments_by_position(kind: Any, arguments: list[Any]) -> None:
    memory = [12, 1, False, True, {"dropout": 0.0}] if kind.recurrent else []
    space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    policy = kind(space, spaces.Discrete(2), lambda _: 3e-4, *POSITIONAL, *arguments, *EXTRACTOR, *memory)
    assert isinstance(policy.features_extractor, FlattenExtractor)
    assert policy.optimizer.param_groups[0]["eps"] == 1e-6
    assert (policy.net_arch, policy.activation_fn, policy.ortho_init) == ([16], torch.nn.ReLU, False)
    assert not memory or policy.lstm_actor.hidden_size == 12


def test_seeded_weights_with_noise_are_the_real_librarys() -> None:
    arguments: dict[str, Any] = {"seed": 3, "use_sde": True, "policy_kwargs": {"ortho_init": False}}
    ours = PPO("MlpPolicy", "Pendulum-v1", **arguments).policy.state_dict()
    theirs = real.PPO("MlpPolicy", "Pendulum-v1", device="cpu", **arguments).policy.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_parts_of_a_masked_distribution() -> None:
    for module in (masked, real_masked):
        distribution = module.MaskableMultiCategoricalDistribution([2, 3]).proba_distribution(torch.zeros(1, 5))
        distribution.apply_masking(np.array([True, False, True, True, False]))
        probabilities = [part.probs.flatten().tolist() for part in distribution.distributions]
        assert np.allclose(probabilities[0], [1.0, 0.0])
        assert np.allclose(probabilities[1], [0.5, 0.5, 0.0])


def test_a_buffer_filled_for_a_gru_gives_its_memory_back() -> None:
    policy = PPO("MlpGruPolicy", "CartPole-v1", n_steps=8, policy_kwargs={"lstm_hidden_size": 4}).policy
    buffer = RecurrentRolloutBuffer(
        8, policy.observation_space, policy.action_space, (8, 1, 2, 4), "cpu", gae_lambda=0.95, n_envs=2
    )
    states = policy.initial_states(2).map(torch.randn_like)
    starts = np.zeros(2, bool)
    for _ in range(8):
        observations = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
        with torch.no_grad():
            actions, values, log_probs, after = policy(torch.as_tensor(observations), states, torch.as_tensor(starts))
        buffer.add(observations, actions.numpy(), np.ones(2), starts, values, log_probs, lstm_states=states)
        states = after
    buffer.compute_returns_and_advantage(torch.zeros(2), starts)
    for batch in buffer.get(4):
        found, log_prob, _ = policy.evaluate_actions(
            batch.observations, batch.actions.flatten(), batch.lstm_states, batch.episode_starts
        )
        torch.testing.assert_close(found.flatten(), batch.old_values, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(log_prob, batch.old_log_prob, atol=1e-5, rtol=1e-5)
