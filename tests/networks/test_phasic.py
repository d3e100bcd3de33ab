"""The networks of PPG: who receives whose gradients, the residual encoder, and what the kernels make of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo.backends.fused import fused_obstacle
from proximo.functional.spaces import Space
from proximo.networks.actor_critic import ActorCriticCnnPolicy
from proximo.networks.encoders import ImpalaCNN, NatureCNN
from proximo.networks.phasic import PhasicCnnPolicy, PhasicMultiInputPolicy, PhasicPolicy

IMAGE = spaces.Box(0, 255, (3, 40, 40), np.uint8)
VECTOR = spaces.Box(-1.0, 1.0, (4,), np.float32)
BOTH = spaces.Dict(image=IMAGE, vector=VECTOR)
FORMS = pytest.mark.parametrize("share", [True, False], ids=["single", "dual"])
ENCODERS = pytest.mark.parametrize("encoder", [NatureCNN, ImpalaCNN])


def images(count: int = 5) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(0).integers(0, 256, (count, *IMAGE.shape), np.uint8))


def gradients(module: torch.nn.Module) -> float:
    return sum(float(p.grad.abs().sum()) for p in module.parameters() if p.grad is not None)


def cnn_policy(share: bool, encoder: Any = NatureCNN, **arguments: Any) -> PhasicCnnPolicy:
    torch.manual_seed(0)
    return PhasicCnnPolicy(
        IMAGE,
        spaces.Discrete(3),
        features_extractor_class=encoder,
        features_extractor_kwargs={"features_dim": 16},
        share_features_extractor=share,
        **arguments,
    )


@FORMS
@ENCODERS
def test_value_gradient_of_the_policy_phase_stays_away_from_the_policys_encoder(share: bool, encoder: Any) -> None:
    policy = cnn_policy(share, encoder)
    values, _, _ = policy.evaluate_actions(images(), torch.tensor([0, 1, 2, 0, 1]))
    (values - 1.0).square().mean().backward()
    assert gradients(policy.pi_features_extractor) == 0.0
    assert gradients(policy.value_net) > 0.0
    if not share:
        assert gradients(policy.vf_features_extractor) > 0.0
    policy.zero_grad()
    policy.predict_values(images()).square().mean().backward()
    assert gradients(policy.pi_features_extractor) == 0.0


def test_a_plain_policy_lets_the_value_into_the_shared_encoder() -> None:
    """What the test above would see without the detaching."""
    policy = ActorCriticCnnPolicy(IMAGE, spaces.Discrete(3))
    policy.evaluate_actions(images(), torch.zeros(5))[0].square().mean().backward()
    assert gradients(policy.features_extractor) > 0.0


@FORMS
def test_both_values_reach_the_encoder_in_the_auxiliary_phase(share: bool) -> None:
    policy = cnn_policy(share)
    with policy.auxiliary_phase():
        policy.evaluate_auxiliary(images()).values.square().mean().backward()
    assert (gradients(policy.pi_features_extractor) > 0.0) == share
    policy.zero_grad()
    with policy.auxiliary_phase():
        policy.evaluate_auxiliary(images()).auxiliary_values.square().mean().backward()
    assert gradients(policy.pi_features_extractor) > 0.0
    assert gradients(policy.auxiliary_value_net) > 0.0
    # an error within the phase leaves it too
    with pytest.raises(RuntimeError), policy.auxiliary_phase():
        raise RuntimeError
    policy.zero_grad()
    policy.predict_values(images()).square().mean().backward()
    assert gradients(policy.pi_features_extractor) == 0.0


@FORMS
@pytest.mark.parametrize(
    ("policy_class", "space"), [(PhasicPolicy, VECTOR), (PhasicCnnPolicy, IMAGE), (PhasicMultiInputPolicy, BOTH)]
)
def test_forward_and_auxiliary_outputs_agree(policy_class: Any, space: Space, share: bool) -> None:
    policy = policy_class(space, spaces.Box(-1.0, 1.0, (2,)), share_features_extractor=share)
    batch: Any = {"image": images(), "vector": torch.rand(5, 4)}
    observations = batch if space is BOTH else batch["image" if space is IMAGE else "vector"]
    found = policy.evaluate_auxiliary(observations)
    assert found.values.shape == found.auxiliary_values.shape == (5,)
    torch.testing.assert_close(found.values, policy.predict_values(observations).flatten())
    actions, values, _ = policy(observations, deterministic=True)
    torch.testing.assert_close(actions, found.distribution.mode())
    torch.testing.assert_close(values.flatten(), found.values)


def test_heads_start_small_and_adams_epsilon_is_the_papers() -> None:
    policy = cnn_policy(share=True)
    for head in (policy.value_net, policy.auxiliary_value_net):
        assert float(head.weight.detach().norm()) == pytest.approx(0.1, rel=1e-5)
        assert float(head.bias.detach().abs().sum()) == 0.0
    assert policy.optimizer.param_groups[0]["eps"] == 1e-8
    assert cnn_policy(True, optimizer_kwargs={"eps": 1e-3}).optimizer.param_groups[0]["eps"] == 1e-3


def test_kernels_take_perceptrons_only() -> None:
    assert fused_obstacle(PhasicPolicy(VECTOR, spaces.Discrete(2))) is None
    assert fused_obstacle(PhasicPolicy(VECTOR, spaces.Discrete(2), share_features_extractor=False)) is None
    assert fused_obstacle(cnn_policy(True)) == "features extractor is NatureCNN"

    class Own(PhasicPolicy):
        def _latents(self, obs: Any) -> Any:
            return super()._latents(obs)

    assert fused_obstacle(Own(VECTOR, spaces.Discrete(2))) == "policy class overrides _latents"


# -- the residual encoder


def test_impala_has_the_published_size() -> None:
    """Procgen's images: 16, 32, 32 channels halve 64 pixels to 8, so 2048 numbers enter the linear layer."""
    encoder = ImpalaCNN(spaces.Box(0, 255, (3, 64, 64), np.uint8))
    assert encoder.features_dim == 256
    assert encoder.linear[0].in_features == 32 * 8 * 8
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 97_600 + 524_544
    assert len([module for module in encoder.modules() if isinstance(module, torch.nn.Conv2d)]) == 15


@pytest.mark.parametrize("shape", [(3, 64, 64), (4, 84, 84), (1, 7, 9)])
def test_impala_reads_bytes_as_it_reads_numbers(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    encoder = ImpalaCNN(spaces.Box(0, 255, shape, np.uint8), features_dim=32)
    pixels = torch.randint(0, 256, (3, *shape), dtype=torch.uint8)
    torch.testing.assert_close(encoder.forward_bytes(pixels), encoder(pixels.float() / 255.0), rtol=1e-4, atol=1e-5)


def test_impala_keeps_the_scale_of_its_input() -> None:
    """Orthogonal weights of gain √2 would double the variance in each of the six residual blocks."""
    torch.manual_seed(0)
    policy = PhasicCnnPolicy(IMAGE, spaces.Discrete(3), features_extractor_class=ImpalaCNN)
    features = policy.extract_features(images(64))
    assert 0.05 < float(features.detach().std()) < 3.0


def test_impala_refuses_vectors() -> None:
    with pytest.raises(ValueError, match="ImpalaCNN reads images"):
        ImpalaCNN(VECTOR)
