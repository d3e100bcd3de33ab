"""Each reason for which a policy is left to PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fused_cases import ACTIVATIONS, make_backend, make_policy
from gymnasium import spaces
from torch import nn

from proximo.backends.fused import FusedBackend, fused_obstacle
from proximo.networks.actor_critic import ActorCriticCnnPolicy, ActorCriticPolicy, MultiInputActorCriticPolicy
from proximo.networks.encoders import FlattenExtractor
from proximo.networks.flat_parameters import FlatParameters
from proximo.networks.maskable import MaskableActorCriticPolicy
from proximo.networks.recurrent import RECURRENT_POLICY_ALIASES

BOX = spaces.Box(-1.0, 1.0, (3,))
TWO = spaces.Discrete(2)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("net_arch", [[], [8], {"pi": [4], "vf": [8, 8]}])
def test_perceptrons_can_be_fused(activation, net_arch):
    assert fused_obstacle(make_policy(BOX, TWO, net_arch, activation)) is None


@pytest.mark.parametrize("observations", [TWO, spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3), BOX])
@pytest.mark.parametrize("actions", [TWO, spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3), BOX])
def test_spaces_that_can_be_fused(observations, actions):
    assert fused_obstacle(make_policy(observations, actions)) is None


@pytest.mark.parametrize("actions", [TWO, spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3), BOX])
def test_policies_for_masked_actions_can_be_fused(actions):
    assert fused_obstacle(MaskableActorCriticPolicy(BOX, actions)) is None


@pytest.mark.parametrize("options", [{}, {"full_std": False}, {"use_expln": True}])
def test_state_dependent_exploration_can_be_fused(options):
    assert fused_obstacle(make_policy(BOX, BOX, use_sde=True, **options)) is None


def test_separate_flatten_extractors_and_subclasses_that_change_nothing_can_be_fused():
    class Named(ActorCriticPolicy):
        """The same policy under another name."""

    assert fused_obstacle(make_policy(BOX, TWO, share_features_extractor=False)) is None
    assert fused_obstacle(Named(BOX, TWO)) is None


class OwnForward(ActorCriticPolicy):
    def evaluate_actions(self, obs, actions):
        return super().evaluate_actions(obs, actions)


class OwnExtractor(FlattenExtractor):
    pass


class OwnNetwork(ActorCriticPolicy):
    def _build_mlp_extractor(self):
        super()._build_mlp_extractor()
        self.mlp_extractor.policy_net = nn.Sequential(nn.Linear(3, 64), nn.Dropout(0.5))


def frozen_log_std() -> ActorCriticPolicy:
    policy = make_policy(BOX, BOX)
    policy.log_std.requires_grad_(False)
    return policy


def changed(change, **options) -> ActorCriticPolicy:
    policy = make_policy(BOX, TWO, **options)
    change(policy)
    return policy


def with_adam(**options) -> ActorCriticPolicy:
    return make_policy(BOX, TWO, optimizer_kwargs=options)


IMAGE = spaces.Box(0, 255, (1, 40, 40), np.uint8)
LSTM = RECURRENT_POLICY_ALIASES["MlpLstmPolicy"]
OBSTACLES = {
    f"policy has memory ({LSTM.__name__})": lambda: LSTM(BOX, TWO),
    "actions are squashed": lambda: make_policy(BOX, BOX, use_sde=True, squash_output=True),
    "policy class overrides evaluate_actions": lambda: OwnForward(BOX, TWO),
    "policy class overrides forward": lambda: changed(lambda policy: setattr(policy, "forward", policy.forward)),
    "features extractor is NatureCNN": lambda: ActorCriticCnnPolicy(IMAGE, TWO),
    "features extractor is OwnExtractor": lambda: make_policy(BOX, TWO, features_extractor_class=OwnExtractor),
    "features extractor is CombinedExtractor": lambda: MultiInputActorCriticPolicy(spaces.Dict({"a": BOX}), TWO),
    "observations are images": lambda: make_policy(IMAGE, TWO),
    "activation is GELU": lambda: make_policy(BOX, TWO, activation=nn.GELU),
    "activation is Dropout": lambda: OwnNetwork(BOX, TWO),
    "activation is ELU with alpha 0.5": lambda: changed(
        lambda policy: setattr(policy.mlp_extractor.policy_net[1], "alpha", 0.5), activation=nn.ELU
    ),
    "value_net has hooks": lambda: changed(lambda policy: policy.value_net.register_forward_hook(lambda *_: None)),
    "value_net has another forward": lambda: changed(
        lambda policy: setattr(policy.value_net, "forward", lambda features: features[:, :1])
    ),
    "optimizer has another step": lambda: changed(
        lambda policy: setattr(policy.optimizer, "step", lambda closure=None: None)
    ),
    "action_net.bias has hooks": lambda: changed(lambda policy: policy.action_net.bias.register_hook(lambda _: None)),
    "log_std is frozen": frozen_log_std,
    "output layer is Sequential": lambda: changed(
        lambda policy: setattr(policy, "value_net", nn.Sequential(policy.value_net))
    ),
    "extra is not a parameter of the two perceptrons": lambda: changed(
        lambda policy: policy.register_parameter("extra", nn.Parameter(torch.zeros(2)))
    ),
    "policy and value network share layers, or there are layers beside theirs": lambda: changed(
        lambda policy: setattr(policy.mlp_extractor, "value_net", policy.mlp_extractor.policy_net)
    ),
    "mlp_extractor.policy_net.0.weight is torch.float64": lambda: changed(lambda policy: policy.double()),
    "device is meta": lambda: changed(lambda policy: policy.to("meta")),
    "optimizer is SGD": lambda: make_policy(BOX, TWO, optimizer_class=torch.optim.SGD),
    "optimizer is AdamW": lambda: make_policy(BOX, TWO, optimizer_class=torch.optim.AdamW),
    "optimizer option weight_decay is set": lambda: with_adam(weight_decay=0.1),
    "optimizer option amsgrad is set": lambda: with_adam(amsgrad=True),
    "optimizer option eps is 0": lambda: with_adam(eps=0),
    **{
        f"optimizer option {option} is set": lambda option=option: make_policy(
            BOX, TWO, optimizer_class=torch.optim.RMSprop, optimizer_kwargs={option: 0.5}
        )
        for option in ("momentum", "centered")
    },
    "optimizer does not hold all parameters": lambda: changed(
        lambda policy: setattr(policy, "optimizer", torch.optim.Adam(policy.value_net.parameters()))
    ),
    "optimizer has several parameter groups": lambda: changed(
        lambda policy: policy.optimizer.add_param_group({"params": [torch.zeros(1, requires_grad=True)]})
    ),
    "actions are int64": lambda: make_policy(BOX, spaces.Box(-3, 3, (2,), np.int64)),
}


@pytest.mark.parametrize("reason", OBSTACLES)
def test_the_reason_is_given(reason):
    policy = OBSTACLES[reason]()
    assert fused_obstacle(policy) == reason


def test_the_backend_refuses_with_the_reason():
    policy = make_policy(BOX, TWO, activation=nn.GELU)
    with pytest.raises(ValueError, match="activation is GELU"):
        FusedBackend(policy, FlatParameters(policy, policy.optimizer), np.random.default_rng(0))


def test_the_backend_refuses_parameters_that_have_moved():
    policy = make_policy(BOX, TWO)
    flat = FlatParameters(policy, policy.optimizer)
    policy.value_net.weight.data = policy.value_net.weight.data.clone()
    with pytest.raises(ValueError, match="left their flat memory"):
        FusedBackend(policy, flat, np.random.default_rng(0))


def test_a_switched_off_compiler_is_an_obstacle(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert fused_obstacle(make_policy(BOX, TWO)) == "NUMBA_DISABLE_JIT is set"


def test_unknown_number_of_threads():
    with pytest.raises(ValueError, match="threads is 3"):
        make_backend(make_policy(BOX, TWO), threads=3)
