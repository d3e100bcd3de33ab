"""The same networks as in Stable-Baselines3: names, first weights, outputs, distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common import policies as oracle_policies
from stable_baselines3.common.distributions import kl_divergence as oracle_kl
from torch import nn

from proximo.networks import actor_critic as policies
from proximo.networks.distributions import kl_divergence
from rounding import OUTPUTS

VECTOR = spaces.Box(-2.0, 2.0, (5,), np.float32)
IMAGE = spaces.Box(0, 255, (3, 40, 40), np.uint8)
DICT = spaces.Dict({"image": IMAGE, "vector": VECTOR, "choice": spaces.Discrete(3), "bits": spaces.MultiBinary(2)})
CHOICE = spaces.Discrete(4)
BOX = spaces.Box(np.array([-1.0, -3.0], np.float32), np.array([0.5, 3.0], np.float32))

CASES: dict[str, tuple[str, spaces.Space[Any], spaces.Space[Any], dict[str, Any]]] = {
    "discrete": ("ActorCriticPolicy", VECTOR, CHOICE, {}),
    "box": ("ActorCriticPolicy", VECTOR, BOX, {}),
    "multidiscrete": ("ActorCriticPolicy", VECTOR, spaces.MultiDiscrete([2, 3]), {}),
    "multibinary": ("ActorCriticPolicy", VECTOR, spaces.MultiBinary(3), {}),
    "discrete observation": ("ActorCriticPolicy", spaces.Discrete(6), CHOICE, {}),
    "multidiscrete observation": ("ActorCriticPolicy", spaces.MultiDiscrete([3, 4]), CHOICE, {}),
    "multibinary observation": ("ActorCriticPolicy", spaces.MultiBinary(4), CHOICE, {}),
    "matrix observation": ("ActorCriticPolicy", spaces.Box(-1.0, 1.0, (2, 3), np.float64), CHOICE, {}),
    "image as vector": ("ActorCriticPolicy", IMAGE, CHOICE, {}),
    "list of sizes": ("ActorCriticPolicy", VECTOR, CHOICE, {"net_arch": [32, 16, 8], "activation_fn": nn.ReLU}),
    "unequal sizes": ("ActorCriticPolicy", VECTOR, CHOICE, {"net_arch": {"pi": [8], "vf": [16, 16]}}),
    "no sizes": ("ActorCriticPolicy", VECTOR, BOX, {"net_arch": []}),
    "policy sizes only": ("ActorCriticPolicy", VECTOR, CHOICE, {"net_arch": {"pi": [8]}}),
    "own extractors": ("ActorCriticPolicy", VECTOR, CHOICE, {"share_features_extractor": False}),
    "default weights": ("ActorCriticPolicy", VECTOR, BOX, {"ortho_init": False, "log_std_init": -1.5}),
    "cnn": ("ActorCriticCnnPolicy", IMAGE, CHOICE, {}),
    "cnn, own extractors": ("ActorCriticCnnPolicy", IMAGE, BOX, {"share_features_extractor": False}),
    "cnn, sizes": (
        "ActorCriticCnnPolicy",
        IMAGE,
        CHOICE,
        {"net_arch": [16], "features_extractor_kwargs": {"features_dim": 64}},
    ),
    "float images": (
        "ActorCriticCnnPolicy",
        spaces.Box(0.0, 1.0, (3, 40, 40), np.float32),
        CHOICE,
        {"normalize_images": False},
    ),
    "dict": ("MultiInputActorCriticPolicy", DICT, CHOICE, {}),
    "dict, own extractors": ("MultiInputActorCriticPolicy", DICT, BOX, {"share_features_extractor": False}),
    "dict, narrow": (
        "MultiInputActorCriticPolicy",
        DICT,
        spaces.MultiBinary(2),
        {"features_extractor_kwargs": {"cnn_output_dim": 32}},
    ),
}


def build(module: Any, case: str, seed: int = 0) -> Any:
    name, observation_space, action_space, arguments = CASES[case]
    torch.manual_seed(seed)
    return getattr(module, name)(observation_space, action_space, lambda _: 3e-4, **arguments)


def sample_batch(space: spaces.Space[Any], count: int) -> Any:
    space.seed(1)
    samples = [space.sample() for _ in range(count)]
    if isinstance(space, spaces.Dict):
        return {key: np.stack([sample[key] for sample in samples]) for key in space.spaces}
    return np.stack(samples)


@pytest.mark.parametrize("case", CASES)
def test_first_weights_are_identical(case: str) -> None:
    """The same seed builds the same network, to the last bit, under the same names."""
    ours, theirs = build(policies, case).state_dict(), build(oracle_policies, case).state_dict()
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert torch.equal(ours[name], value), name


@pytest.mark.parametrize("case", CASES)
def test_outputs_are_equal(case: str) -> None:
    """Values, log-probabilities, entropies, chosen actions and predictions for the same weights."""
    ours, theirs = build(policies, case, seed=1), build(oracle_policies, case, seed=2)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    ours.load_state_dict(theirs.state_dict())
    _, observation_space, _, _ = CASES[case]
    batch = sample_batch(observation_space, 7)
    mine, _ = ours.obs_to_tensor(batch)
    tensors, _ = theirs.obs_to_tensor(batch)
    with torch.no_grad():
        actions, _, _ = theirs(tensors)
        for result, expected in zip(
            ours.evaluate_actions(mine, actions), theirs.evaluate_actions(tensors, actions), strict=True
        ):
            assert result.shape == expected.shape
            torch.testing.assert_close(result, expected, **OUTPUTS)
        for result, expected in zip(ours(mine, deterministic=True), theirs(tensors, deterministic=True), strict=True):
            assert result.shape == expected.shape
            torch.testing.assert_close(result, expected, **OUTPUTS)
        torch.testing.assert_close(ours.predict_values(mine), theirs.predict_values(tensors), **OUTPUTS)
        mine_again, theirs_again = ours.get_distribution(mine), theirs.get_distribution(tensors)
        torch.testing.assert_close(mine_again.log_prob(actions), theirs_again.log_prob(actions), **OUTPUTS)
        torch.testing.assert_close(mine_again.entropy(), theirs_again.entropy(), **OUTPUTS)
    predicted, expected_prediction = ours.predict(batch, deterministic=True), theirs.predict(batch, deterministic=True)
    assert predicted[0].shape == expected_prediction[0].shape
    np.testing.assert_allclose(predicted[0], expected_prediction[0], **OUTPUTS)


@pytest.mark.parametrize("case", ["discrete", "box", "multidiscrete", "multibinary"])
def test_kl_divergence_is_equal(case: str) -> None:
    pairs = []
    for module, divergence in ((policies, kl_divergence), (oracle_policies, oracle_kl)):
        batch = torch.as_tensor(sample_batch(VECTOR, 4))
        first, second = build(module, case, seed=3), build(module, case, seed=4)
        for policy in (first, second):
            policy.action_net.weight.data.mul_(100.0)
        with torch.no_grad():
            pairs.append(divergence(first.get_distribution(batch), second.get_distribution(batch)))
    ours, theirs = pairs
    expected = theirs.sum(dim=1) if theirs.dim() > 1 and ours.dim() == 1 else theirs
    torch.testing.assert_close(ours, expected, **OUTPUTS)
    assert float(ours.abs().max()) > 1e-3


def test_first_weights_are_orthogonal_with_the_right_gains() -> None:
    """Hand-checked: singular values √2 in hidden layers, 0.01 in the action head, 1 in the value head; biases 0."""
    torch.manual_seed(5)
    policy = policies.ActorCriticPolicy(VECTOR, CHOICE, lambda _: 3e-4)
    gains = {
        "mlp_extractor.policy_net.0": 2**0.5,
        "mlp_extractor.policy_net.2": 2**0.5,
        "mlp_extractor.value_net.0": 2**0.5,
        "mlp_extractor.value_net.2": 2**0.5,
        "action_net": 0.01,
        "value_net": 1.0,
    }
    for name, gain in gains.items():
        layer = policy.get_submodule(name)
        singular_values = torch.linalg.svdvals(layer.weight)
        torch.testing.assert_close(singular_values, torch.full_like(singular_values, gain), rtol=1e-4, atol=1e-6)
        assert not layer.bias.any(), name


@pytest.mark.parametrize("case", ["box", "multidiscrete", "multibinary", "discrete"])
def test_samples_follow_the_distribution(case: str) -> None:
    """Frequencies of sampled actions agree with exp(log_prob), for what the oracle's distribution says of them."""
    ours, theirs = build(policies, case, seed=6), build(oracle_policies, case, seed=6)
    observation = np.repeat(sample_batch(VECTOR, 1), 20_000, axis=0)
    tensors = torch.as_tensor(observation)
    torch.manual_seed(0)
    with torch.no_grad():
        actions, _, log_prob = ours(tensors)
        _, oracle_log_prob, entropy = theirs.evaluate_actions(tensors, actions)
    torch.testing.assert_close(log_prob, oracle_log_prob, **OUTPUTS)
    assert float(-log_prob.mean()) == pytest.approx(float(entropy[0]), abs=0.03)
