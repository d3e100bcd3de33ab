"""PPGLearner: construction, acting, what each phase changes, and bad input."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from gymnasium import spaces
from omegaconf import OmegaConf
from torch import nn

from proximo.hsuanwu.xploit.encoder import EspeholtResidualEncoder, IdentityEncoder, VanillaMlpEncoder
from proximo.hsuanwu.xploit.learner import PPGLearner
from proximo.hsuanwu.xploit.storage import VanillaRolloutStorage
from proximo.hsuanwu.xplore.distribution import Categorical, DiagonalGaussian

from .conftest import BOX_ACTIONS, TWO_ACTIONS, VECTOR

IMAGE = {"shape": (3, 12, 12)}


def changed(learner: PPGLearner, before: dict[str, torch.Tensor]) -> set[str]:
    """Names of the parameters that moved."""
    after = learner.network.state_dict()
    return {name for name, value in before.items() if not torch.equal(value, after[name])}


def copied(learner: PPGLearner) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in learner.network.state_dict().items()}


def test_signature_and_defaults_are_the_seeds():
    parameters = inspect.signature(PPGLearner).parameters
    assert list(parameters)[:3] == ["observation_space", "action_space", "device"]
    assert {name: each.default for name, each in parameters.items() if each.default is not each.empty} == {
        "feature_dim": 256, "lr": 5e-4, "eps": 1e-5, "hidden_dim": 256, "clip_range": 0.2, "num_policy_mini_batch": 8,
        "num_aux_mini_batch": 4, "vf_coef": 0.5, "ent_coef": 0.01, "max_grad_norm": 0.5, "policy_epochs": 32,
        "aux_epochs": 6, "kl_coef": 1.0, "num_aux_grad_accum": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("observations", "actions"),
    [
        (VECTOR, TWO_ACTIONS),
        (OmegaConf.create(VECTOR), OmegaConf.create(TWO_ACTIONS)),
        (spaces.Box(-1.0, 1.0, (4,), np.float32), spaces.Discrete(2)),
    ],
)
def test_usable_as_soon_as_constructed_from_each_form_of_space(observations, actions):
    learner = PPGLearner(observations, actions, "cpu")
    obs = torch.randn(5, 4)
    assert learner.get_value(obs).shape == (5, 1)
    chosen, extra = learner.act(obs, training=True, step=0)
    assert chosen.shape == (5,)
    assert {name: part.shape for name, part in extra.items()} == {"log_probs": (5, 1), "values": (5, 1)}
    torch.testing.assert_close(extra["values"], learner.get_value(obs))
    likeliest, nothing = learner.act(obs, training=False)
    expected = learner.network.get_distribution(obs).distribution.logits.argmax(dim=1)
    assert nothing == {}
    assert torch.equal(likeliest, expected)


def test_the_network_is_encoder_trunk_and_linear_heads():
    learner = PPGLearner(IMAGE, TWO_ACTIONS, "cpu")
    shared = learner.network.features_extractor
    assert isinstance(shared.encoder, EspeholtResidualEncoder)
    assert [type(layer) for layer in shared.trunk] == [nn.LayerNorm, nn.Tanh, nn.Linear, nn.ReLU]
    obs = torch.randint(0, 256, (2, 3, 12, 12), dtype=torch.uint8)
    latent = shared.trunk(shared.encoder(obs.float()))
    torch.testing.assert_close(learner.get_value(obs), learner.network.value_net(latent))
    found = learner.network.evaluate_auxiliary(obs)
    torch.testing.assert_close(found.auxiliary_values, learner.network.auxiliary_value_net(latent).squeeze(1))
    assert learner.network.action_net.weight.shape == (2, 256)


def test_train_sets_the_mode(make_learner):
    learner = make_learner()
    learner.train(False)
    assert (learner.training, learner.encoder.training) == (False, False)
    learner.train()
    assert (learner.training, learner.encoder.training) == (True, True)


@pytest.mark.parametrize("observations", [VECTOR, IMAGE], ids=["vector", "image"])
@pytest.mark.parametrize("actions", [TWO_ACTIONS, BOX_ACTIONS], ids=["discrete", "box"])
def test_each_phase_changes_its_own_parameters(make_learner, fill, observations, actions):
    learner = make_learner(observations, actions)
    everything = set(learner.network.state_dict())
    for episode in range(7):
        before = copied(learner)
        metrics = learner.update(fill(learner), episode=episode)
        assert all(np.isfinite(value) for value in metrics.values())
        moved = changed(learner, before)
        if episode % 3 == 2:  # every third update, as policy_epochs is 3
            assert set(metrics) == {"actor_loss", "critic_loss", "entropy_loss", "aux_value_loss", "kl_loss"}
            assert metrics["kl_loss"] > 0.0
            assert moved == everything
        else:
            assert set(metrics) == {"actor_loss", "critic_loss", "entropy_loss"}
            assert moved == {name for name in everything if not name.startswith("auxiliary_value_net")}


def test_the_critics_gradient_stays_out_of_what_is_shared(make_learner, fill):
    learner = make_learner(ent_coef=0.0)
    storage = fill(learner)
    storage.advantages[:] = 0.0  # nothing for the actor to learn
    before = copied(learner)
    learner.update(storage)
    assert changed(learner, before) == {"value_net.weight", "value_net.bias"}


def test_continuous_actions_have_a_learned_deviation_from_one(make_learner, fill):
    learner = make_learner(action_space=BOX_ACTIONS)
    assert learner.network.log_std.tolist() == [0.0, 0.0, 0.0]
    actions, extra = learner.act(torch.zeros(2000, 4))
    assert actions.shape == (2000, 3)
    assert actions.std().item() == pytest.approx(1.0, abs=0.05)  # not clipped: the log-probabilities are of these
    gaussian = learner.network.get_distribution(torch.zeros(2000, 4)).distribution
    torch.testing.assert_close(extra["log_probs"].squeeze(1), gaussian.log_prob(actions).sum(dim=1))
    learner.update(fill(learner))
    assert learner.network.log_std.abs().min() > 0.0
    with torch.no_grad():
        learner.network.action_net.bias += 5.0
    assert learner.act(torch.zeros(2, 4), training=False)[0].tolist() == [[1.0] * 3] * 2  # within the bounds


def test_metrics_by_hand(make_learner, fill):
    learner = make_learner(num_policy_mini_batch=1)
    storage = fill(learner)
    obs, values, returns = storage.obs[:-1].reshape(16, 4), storage.values.flatten(), storage.returns.flatten()
    entropy = learner.network.get_distribution(obs).distribution.entropy().mean().item()
    metrics = learner.update(storage)
    # before the first step the ratio is 1 and no value is clipped
    assert metrics["actor_loss"] == pytest.approx(0.0, abs=1e-5)
    assert metrics["critic_loss"] == pytest.approx(0.5 * (values - returns).square().mean().item(), rel=1e-5)
    assert metrics["entropy_loss"] == pytest.approx(entropy, rel=1e-5)


def test_an_injected_encoder_keeps_its_weights_and_learns(make_learner, fill):
    learner = make_learner()
    heads = learner.network.value_net.weight.clone()
    encoder = VanillaMlpEncoder(VECTOR, feature_dim=16, hidden_dim=7)
    weight = encoder.trunk[0].weight.clone()
    learner.encoder = encoder
    learner.encoder_opt = torch.optim.Adam(encoder.parameters(), lr=learner.lr, eps=learner.eps)
    learner.dist = Categorical
    assert learner.encoder is encoder
    assert torch.equal(encoder.trunk[0].weight, weight)
    assert torch.equal(learner.network.value_net.weight, heads)
    learner.update(fill(learner))
    assert not torch.equal(encoder.trunk[0].weight, weight)


def test_an_encoder_injected_within_a_phase_goes_on(make_learner, fill):
    learner = make_learner()
    learner.update(fill(learner), episode=0)
    learner.encoder = VanillaMlpEncoder(VECTOR, feature_dim=16, hidden_dim=7)
    learner.update(fill(learner), episode=1)
    before = copied(learner)
    assert "kl_loss" in learner.update(fill(learner), episode=2)
    assert changed(learner, before) == set(before)


def test_a_seed_repeats_an_update(make_learner, fill):
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        np.random.seed(3)
        learner = make_learner()
        results.append([learner.update(fill(learner)) for _ in range(3)])
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("encoder", "error", "message"),
    [
        (VanillaMlpEncoder(VECTOR, feature_dim=8), ValueError, "gives 8 features.*feature_dim 16"),
        (IdentityEncoder(VECTOR, feature_dim=4), ValueError, "gives 4 features"),
        (nn.Linear(5, 16), ValueError, "cannot read observations"),
        (lambda obs: obs, TypeError, "expected a torch module"),
    ],
)
def test_an_encoder_that_does_not_fit_is_refused(make_learner, encoder, error, message):
    learner = make_learner()
    before = learner.encoder
    with pytest.raises(error, match=message):
        learner.encoder = encoder
    assert learner.encoder is before


def test_other_injections_that_would_change_something_are_refused(make_learner):
    learner = make_learner()
    with pytest.raises(ValueError, match="pass those to PPGLearner"):
        learner.encoder_opt = torch.optim.Adam(learner.encoder.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="pass those to PPGLearner"):
        learner.encoder_opt = torch.optim.SGD(learner.encoder.parameters(), lr=learner.lr)
    with pytest.raises(ValueError, match="from Categorical"):
        learner.dist = DiagonalGaussian


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature_dim": 0}, "feature_dim is 0"),
        ({"num_policy_mini_batch": 0}, "num_policy_mini_batch is 0"),
        ({"eps": 0.0}, "eps is 0.0"),
        ({"lr": -1.0}, "learning_rate"),
        ({"policy_epochs": 0}, "policy_epochs is 0"),
        ({"aux_epochs": 1.5}, "aux_epochs is 1.5"),
        ({"kl_coef": -1.0}, "kl_coef is -1.0"),
        ({"num_aux_grad_accum": 3}, "a divisor of num_aux_mini_batch 4"),
    ],
)
def test_bad_hyperparameters_are_refused(make_learner, options, message):
    with pytest.raises(ValueError, match=message):
        make_learner(**options)


def test_observations_of_another_shape_are_refused(make_learner):
    with pytest.raises(ValueError, match=r"obs has shape \(2, 5\); expected \[batch, 4\]"):
        make_learner().get_value(torch.zeros(2, 5))


def test_storages_of_other_shapes_are_refused(make_learner, fill):
    learner = make_learner()
    other = make_learner({"shape": (5,)})
    three = make_learner(action_space={"shape": (3,), "type": "Discrete", "range": [0, 2]})
    box = make_learner(action_space=BOX_ACTIONS)
    before = copied(learner)
    with pytest.raises(ValueError, match=r"observations of shape \(5,\), the learner reads \(4,\)"):
        learner.update(fill(other))
    with pytest.raises(ValueError, match=r"Discrete actions of \(3,\), the learner acts with Discrete of \(2,\)"):
        learner.update(fill(three))
    with pytest.raises(ValueError, match="keeps Box actions"):
        learner.update(fill(box))
    with pytest.raises(TypeError, match="rollout_storage is dict"):
        learner.update({})
    learner.update(fill(learner))
    with pytest.raises(ValueError, match=r"holds 16 steps of 2 environments.*has begun with 8 of 2"):
        learner.update(fill(learner, num_steps=16))
    assert changed(learner, before)  # by the one update that was right


def test_a_storage_without_advantages_is_refused(make_learner, fill):
    learner = make_learner()
    storage = fill(learner)
    storage.reset()
    with pytest.raises(ValueError, match="holds 0 of 8 steps without advantages"):
        learner.update(storage)


def test_numbers_of_minibatches_must_divide(make_learner, fill):
    auxiliary, policy = make_learner(num_aux_mini_batch=5), make_learner(num_policy_mini_batch=3)
    before = copied(auxiliary)
    storage = fill(auxiliary)
    with pytest.raises(ValueError, match="num_aux_mini_batch is 5; expected a divisor of the 48 samples"):
        auxiliary.update(storage)
    assert not changed(auxiliary, before)  # at once, not when the phase is full
    with pytest.raises(ValueError, match="num_policy_mini_batch 3 does not divide the 16 samples"):
        policy.update(storage)


def test_a_dict_without_its_keys_is_refused_at_once():
    with pytest.raises(ValueError, match="observation_space lacks 'shape'"):
        PPGLearner({}, TWO_ACTIONS, "cpu")
    with pytest.raises(ValueError, match="action_space lacks 'type', 'range'"):
        PPGLearner(VECTOR, {"shape": (2,)}, "cpu")


def test_float_images_train_too(make_learner):
    learner = make_learner({"shape": (3, 8, 8)}, policy_epochs=1)
    storage = VanillaRolloutStorage("cpu", (3, 8, 8), (2,), "Discrete", 4, 2)
    for _ in range(4):
        obs = torch.rand(2, 3, 8, 8)
        actions, extra = learner.act(obs)
        storage.add(obs, actions, torch.randn(2), torch.zeros(2), torch.zeros(2), **extra)
    storage.compute_returns_and_advantages(torch.zeros(2, 1))
    assert learner.update(storage)["kl_loss"] > 0.0
