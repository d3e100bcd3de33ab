"""Which backend runs a policy, what it says, and that users' changes to the policy reach it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from proximo import PPO, make_vec_env
from proximo.backends.fused import FusedBackend
from proximo.envs.testing.environments import FakeImageEnv, SimpleMultiObsEnv
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.encoders import FlattenExtractor

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "seed": 0}


class OwnPolicy(ActorCriticPolicy):
    def evaluate_actions(
        self, obs: Any, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        return super().evaluate_actions(obs, actions)


class OwnExtractor(FlattenExtractor):
    pass


def small_image() -> FakeImageEnv:
    return FakeImageEnv(screen_height=36, screen_width=36)


DESCRIPTIONS: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "discrete": ("MlpPolicy", "CartPole-v1", {}, "fused"),
    "box": ("MlpPolicy", "Pendulum-v1", {}, "fused"),
    "asked for": ("MlpPolicy", "CartPole-v1", {"backend": "torch"}, "torch: asked for"),
    "images": ("CnnPolicy", small_image, {}, "torch: features extractor is NatureCNN"),
    "dict": ("MultiInputPolicy", SimpleMultiObsEnv, {}, "torch: features extractor is CombinedExtractor"),
    "activation": (
        "MlpPolicy",
        "CartPole-v1",
        {"policy_kwargs": {"activation_fn": nn.GELU}},
        "torch: activation is GELU",
    ),
    "optimizer": (
        "MlpPolicy",
        "CartPole-v1",
        {"policy_kwargs": {"optimizer_class": torch.optim.SGD}},
        "torch: optimizer is SGD",
    ),
    "own policy": (OwnPolicy, "CartPole-v1", {}, "torch: policy class overrides evaluate_actions"),
    "own extractor": (
        "MlpPolicy",
        "CartPole-v1",
        {"policy_kwargs": {"features_extractor_class": OwnExtractor}},
        "torch: features extractor is OwnExtractor",
    ),
}


@pytest.mark.parametrize(("policy", "environment", "arguments", "expected"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_the_model_says_who_runs_it(policy: Any, environment: Any, arguments: dict[str, Any], expected: str) -> None:
    model = PPO(policy, make_vec_env(environment), **(SMALL | arguments))
    assert model.backend == expected
    model.learn(16)
    assert model.backend == expected


def test_replaced_module_is_run_and_trained() -> None:
    """A new output layer after construction: the backend is bound again, and the new layer learns."""
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL)
    model.learn(32)
    replacement = nn.Linear(64, 1)
    nn.init.constant_(replacement.weight, 0.0)
    nn.init.constant_(replacement.bias, 7.0)
    model.policy.value_net = replacement
    model.policy.optimizer = torch.optim.Adam(model.policy.parameters(), lr=3e-4, eps=1e-5)
    model.learn(32)
    assert model.backend == "fused"
    assert np.allclose(model.rollout_buffer.values, 7.0)  # collected with the new layer
    assert model.policy.value_net is replacement
    assert replacement.bias.item() != 7.0  # and trained it


def test_replaced_module_may_change_the_backend() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL)
    model.policy.value_net = nn.Sequential(nn.Linear(64, 4), nn.GELU(), nn.Linear(4, 1))
    model.policy.optimizer = torch.optim.Adam(model.policy.parameters(), lr=1e-3)
    before = model.policy.value_net[0].weight.detach().clone()
    model.learn(32)
    assert model.backend == "torch: output layer is Sequential"
    assert not torch.equal(before, model.policy.value_net[0].weight)


def test_replaced_activation_is_run() -> None:
    """No parameter changes, but the function does."""
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), learning_rate=0.0, **SMALL)
    model.learn(32)
    model.policy.mlp_extractor.value_net[3] = nn.ReLU()
    model.learn(32)
    assert model.backend == "fused"
    with torch.no_grad():
        expected = model.policy.predict_values(torch.as_tensor(model.rollout_buffer.observations.reshape(-1, 4)))
    np.testing.assert_allclose(model.rollout_buffer.values.reshape(-1, 1), expected, atol=1e-5)


def test_hooks_are_called() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL)
    calls = []
    handle = model.policy.mlp_extractor.policy_net[1].register_forward_hook(lambda *_: calls.append(1))
    model.learn(32)
    assert model.backend == "torch: mlp_extractor.policy_net.1 has hooks"
    assert len(calls) >= 16
    handle.remove()
    model.learn(32)
    assert model.backend == "fused"


def test_a_replaced_forward_is_called() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL)
    model.learn(32)
    model.policy.value_net.forward = lambda features: 7.0 + 0.0 * features[:, :1]
    model.learn(32)
    assert model.backend == "torch: value_net has another forward"
    assert np.allclose(model.rollout_buffer.values, 7.0)
    del model.policy.value_net.forward
    assert model.backend == "fused"


def test_a_replaced_step_of_the_optimizer_is_called() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL)
    model.learn(32)
    before = model.policy.parameters_to_vector()
    model.policy.optimizer.step = lambda closure=None: None
    model.learn(32)
    assert model.backend == "torch: optimizer has another step"
    assert np.array_equal(before, model.policy.parameters_to_vector())


def test_a_scheduler_of_pytorch_is_no_obstacle() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL)
    torch.optim.lr_scheduler.LambdaLR(model.policy.optimizer, lambda _: 1.0)
    assert "step" in vars(model.policy.optimizer)
    model.learn(32)
    assert model.backend == "fused"


def test_replaced_parameter_is_trained() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL)
    model.policy.value_net.bias = nn.Parameter(torch.tensor([4.0]))
    model.policy.optimizer = torch.optim.Adam(model.policy.parameters(), lr=1e-3)
    model.learn(32)
    assert model.policy.value_net.bias.item() != 4.0
    assert model.rollout_buffer.values.mean() > 2.0


def test_loaded_weights_reach_the_backend() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL)
    state = {name: torch.zeros_like(value) for name, value in model.policy.state_dict().items()}
    state["value_net.bias"] = torch.tensor([3.0])
    model.policy.load_state_dict(state)
    model.learn(32)
    assert np.allclose(model.rollout_buffer.values, 3.0)
    assert np.allclose(model.rollout_buffer.log_probs, -np.log(2.0))


def test_frozen_parameters_stay() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL)
    frozen = model.policy.mlp_extractor.policy_net[0]
    for parameter in frozen.parameters():
        parameter.requires_grad_(False)
    before, other = frozen.weight.clone(), model.policy.action_net.weight.detach().clone()
    model.learn(64)
    assert torch.equal(before, frozen.weight)
    assert not torch.equal(other, model.policy.action_net.weight)


def test_new_optimizer_is_used() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL)
    model.learn(32)
    model.policy.optimizer = torch.optim.Adam([model.policy.value_net.weight, model.policy.value_net.bias], lr=1e-3)
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    model.learn(64)
    changed = {name for name, value in model.policy.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"value_net.weight", "value_net.bias"}


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_both_backends_see_one_memory(env_id: str) -> None:
    """What the kernels compute equals what the module computes, after training too."""
    model = PPO("MlpPolicy", make_vec_env(env_id, n_envs=3, seed=0), backend="fused", **SMALL).learn(96)
    assert isinstance(model.runtime.backend, FusedBackend)
    width = model.observation_space.shape[0]
    observations = np.random.default_rng(0).normal(size=(3, width)).astype(np.float32)
    with torch.no_grad():
        values = model.policy.predict_values(torch.as_tensor(observations)).flatten().numpy()
    np.testing.assert_allclose(model.runtime.backend.values(observations), values, atol=1e-5)


def test_a_moved_policy_learns_after_set_parameters() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL)
    model.policy.double()
    model.policy.float()
    model.set_parameters(model.get_parameters())
    before = model.policy.parameters_to_vector()
    model.learn(16)
    assert model.backend == "fused"
    assert np.abs(model.policy.parameters_to_vector() - before).max() > 1e-4


CHANGES: dict[str, tuple[Any, str]] = {
    "hook of a parameter": (
        lambda policy: policy.value_net.weight.register_hook(lambda gradient: gradient),
        "value_net.weight has hooks",
    ),
    "hook of the optimizer": (
        lambda policy: policy.optimizer.register_step_post_hook(lambda *_: None),
        "optimizer has hooks",
    ),
    "option of the optimizer": (
        lambda policy: policy.optimizer.param_groups[0].update(weight_decay=0.1),
        "optimizer option weight_decay is set",
    ),
    "another method": (
        lambda policy: setattr(policy, "evaluate_actions", policy.evaluate_actions),
        "policy class overrides evaluate_actions",
    ),
}


@pytest.mark.parametrize(("change", "obstacle"), CHANGES.values(), ids=CHANGES)
def test_what_the_kernels_cannot_do_is_noticed_after_construction(change: Any, obstacle: str) -> None:
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(16)
    assert model.backend == "fused"
    change(model.policy)
    model.learn(16)
    assert model.backend == f"torch: {obstacle}"


@pytest.mark.parametrize("listened", ["features_extractor", "features_extractor.cnn", "features_extractor.cnn.0"])
def test_hooks_of_image_encoders_are_called(listened: str) -> None:
    model = PPO("CnnPolicy", small_image(), **SMALL)
    observation = model.env.reset()
    plain = model.policy.predict_values(model.policy.obs_to_tensor(observation)[0])
    calls: list[Any] = []
    model.policy.get_submodule(listened).register_forward_hook(lambda *arguments: calls.append(arguments))
    hooked = model.policy.predict_values(model.policy.obs_to_tensor(observation)[0])
    assert len(calls) == 1
    torch.testing.assert_close(hooked, plain)


def test_another_first_layer_of_an_image_encoder_is_used_as_it_is() -> None:
    model = PPO("CnnPolicy", small_image(), **SMALL)
    encoder: Any = model.policy.features_extractor
    first = nn.Conv2d(encoder.cnn[0].in_channels, 32, kernel_size=8, stride=4, padding=1, padding_mode="circular")
    encoder.cnn[0] = first
    image = torch.randint(0, 256, (1, *model.observation_space.shape), dtype=torch.uint8)
    torch.testing.assert_close(
        model.policy.extract_features(image), encoder(image.float() / 255.0), rtol=1e-4, atol=1e-5
    )


def test_another_number_of_steps_needs_another_buffer() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL)
    model.n_steps = 8
    with pytest.raises(ValueError, match="buffer holds 16 steps, 8 were asked for; give n_steps to the constructor"):
        model.learn(16)
