"""Which policies the kernels can run: plain perceptrons with a closed-form action distribution, on the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from proximo.backends.fused.structures import UPDATE, ActionKind, Activation, Head, Optimizer
from proximo.config import A2CConfig, OnPolicyConfig, PPGConfig, PPOConfig, TRPOConfig
from proximo.functional.actions import stored_action_dtype
from proximo.functional.spaces import is_image_space
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    MaskableBernoulliDistribution,
    MultiCategoricalDistribution,
    StateDependentNoiseDistribution,
)
from proximo.networks.encoders import FlattenExtractor, MlpExtractor
from proximo.networks.hooks import has_hooks
from proximo.networks.optimizers import RMSpropTFLike
from proximo.networks.phasic import PhasicPolicy

# what the kernels do in the place of these methods is right only if nobody has given them another meaning; that a
# phasic policy detaches features means nothing here, where features have no parameters
STOCK_POLICIES = (ActorCriticPolicy, PhasicPolicy)
METHODS = (
    "forward", "evaluate_actions", "predict_values", "get_distribution", "extract_features",
    "_get_action_dist_from_latent", "_latents", "bound_actions", "reset_noise",
)  # fmt: skip

ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.Identity: Activation.IDENTITY,
    nn.Tanh: Activation.TANH,
    nn.ReLU: Activation.RELU,
    nn.ELU: Activation.ELU,
    nn.LeakyReLU: Activation.LEAKY_RELU,
    nn.SiLU: Activation.SILU,
    nn.Sigmoid: Activation.SIGMOID,
}

HEADS: dict[type[Any], Head] = {
    CategoricalDistribution: Head.CATEGORICAL,
    MultiCategoricalDistribution: Head.CATEGORICAL,
    MaskableBernoulliDistribution: Head.CATEGORICAL,
    BernoulliDistribution: Head.BERNOULLI,
    DiagGaussianDistribution: Head.GAUSSIAN,
    StateDependentNoiseDistribution: Head.STATE_DEPENDENT,
}

OPTIMIZERS: dict[type[torch.optim.Optimizer], Optimizer] = {
    torch.optim.Adam: Optimizer.ADAM,
    torch.optim.RMSprop: Optimizer.RMSPROP,
    RMSpropTFLike: Optimizer.RMSPROP_TF,
}
UNSUPPORTED_OPTIONS = ("weight_decay", "amsgrad", "maximize", "capturable", "differentiable", "momentum", "centered")

ACTION_KINDS: dict[np.dtype[Any], ActionKind] = {
    np.dtype(np.int64): ActionKind.INT64,
    np.dtype(np.int32): ActionKind.INT32,
    np.dtype(np.int8): ActionKind.INT8,
    np.dtype(np.float32): ActionKind.FLOAT32,
}


# what the kernels read of an update's settings, what the update reads before them, and what is another phase's
OTHER_CONFIGURATIONS = {*A2CConfig.names(), *PPGConfig.names(), *TRPOConfig.names()} - {*PPOConfig.names()}
BEFORE_KERNELS = ("n_steps", "gamma", "gae_lambda", "n_epochs", "normalize_returns")
KNOWN_SETTINGS = {*(UPDATE.names or ()), *BEFORE_KERNELS, *OTHER_CONFIGURATIONS}


def fused_obstacle(policy: ActorCriticPolicy) -> str | None:
    """Why the kernels cannot run this policy, in words; None if they can.

    >>> box = spaces.Box(-1.0, 1.0, (3,))
    >>> fused_obstacle(ActorCriticPolicy(box, spaces.Discrete(2)))
    >>> fused_obstacle(ActorCriticPolicy(box, spaces.Discrete(2), activation_fn=nn.GELU))
    'activation is GELU'
    """
    return next(_obstacles(policy), None)


def settings_obstacle(config: OnPolicyConfig) -> str | None:
    """A hyperparameter that is in use and that the kernels know nothing of; None where there is none."""
    for item in fields(config):
        if item.name not in KNOWN_SETTINGS and getattr(config, item.name) != item.default:
            return f"{item.name} is {getattr(config, item.name)!r}, which kernels do not know"
    return None


def changeable(policy: ActorCriticPolicy) -> tuple[object, ...]:
    """What may become an obstacle without a part of the policy being replaced; cheap enough for every iteration."""
    optimizer = policy.optimizer
    return (
        policy.action_dist,  # by identity: another one may sample in another way
        [method for method in METHODS if method in vars(policy)],
        [any(parameter._backward_hooks for parameter in group["params"]) for group in optimizer.param_groups],
        [group.get(option) for group in optimizer.param_groups for option in (*UNSUPPORTED_OPTIONS, "eps")],
        bool(optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks),
        has_other_step(optimizer),
    )


def linear_layers(network: nn.Sequential) -> list[tuple[nn.Linear, Activation]]:
    """The linear layers of a perceptron, each with the activation that follows it."""
    layers: list[tuple[nn.Linear, Activation]] = []
    for module in network:
        if isinstance(module, nn.Linear):
            layers.append((module, Activation.IDENTITY))
        else:
            layers[-1] = (layers[-1][0], ACTIVATIONS[type(module)])
    return layers


def _obstacles(policy: ActorCriticPolicy) -> Iterator[str]:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        yield "NUMBA_DISABLE_JIT is set"
    yield from _class_obstacles(policy)
    yield from _space_obstacles(policy)
    yield from _network_obstacles(policy)
    yield from _parameter_obstacles(policy)
    yield from _optimizer_obstacles(policy.optimizer, list(policy.parameters()))


def _class_obstacles(policy: ActorCriticPolicy) -> Iterator[str]:
    if policy.recurrent:
        yield f"policy has memory ({type(policy).__name__})"
    for method in METHODS:
        stock = [getattr(known, method) for known in STOCK_POLICIES]
        if method in vars(policy) or getattr(type(policy), method, None) not in stock:
            yield f"policy class overrides {method}"
    for extractor in (policy.features_extractor, policy.pi_features_extractor, policy.vf_features_extractor):
        if type(extractor) is not FlattenExtractor:
            yield f"features extractor is {type(extractor).__name__}"


def _space_obstacles(policy: ActorCriticPolicy) -> Iterator[str]:
    match policy.observation_space:
        case spaces.Box():
            if policy.normalize_images and is_image_space(policy.observation_space):
                yield "observations are images"
        case spaces.Discrete() | spaces.MultiDiscrete() | spaces.MultiBinary():
            pass
        case _:
            yield f"observation space is {type(policy.observation_space).__name__}"
    if type(policy.action_dist) not in HEADS:
        yield f"action distribution is {type(policy.action_dist).__name__}"
    if isinstance(policy.action_dist, StateDependentNoiseDistribution):
        if policy.action_dist.bijector is not None:
            yield "actions are squashed"
        if policy.action_dist.learn_features:
            yield "state-dependent noise trains the features"
    whole = isinstance(policy.action_space, spaces.Box) and not np.issubdtype(policy.action_space.dtype, np.floating)
    if whole or stored_action_dtype(policy.action_space) not in ACTION_KINDS:
        yield f"actions are {policy.action_space.dtype}"


def _network_obstacles(policy: ActorCriticPolicy) -> Iterator[str]:
    extractor = policy.mlp_extractor
    if type(extractor) is not MlpExtractor:
        yield f"network is {type(extractor).__name__}"
        return
    for network in (extractor.policy_net, extractor.value_net):
        if type(network) is not nn.Sequential:
            yield f"network is {type(network).__name__}"
            continue
        after_linear = False
        for module in network:
            if type(module) is nn.Linear:
                after_linear = True
                continue
            yield from _activation_obstacles(module)
            if not after_linear:
                yield f"{type(module).__name__} does not follow a linear layer"
            after_linear = False
    for head in (policy.action_net, policy.value_net):
        if type(head) is not nn.Linear:
            yield f"output layer is {type(head).__name__}"
    if getattr(policy.value_net, "out_features", 1) != 1:
        yield "an intrinsic reward has a value of its own"
    for name, module in policy.named_modules():
        if isinstance(module, nn.Linear) and module.bias is None:
            yield f"{name} has no bias"
        if has_hooks(module):
            yield f"{name or 'policy'} has {'another forward' if 'forward' in vars(module) else 'hooks'}"


def _activation_obstacles(module: nn.Module) -> Iterator[str]:
    if type(module) not in ACTIVATIONS:
        yield f"activation is {type(module).__name__}"
    elif isinstance(module, nn.ELU) and module.alpha != 1.0:
        yield f"activation is ELU with alpha {module.alpha}"
    elif isinstance(module, nn.LeakyReLU) and module.negative_slope != 0.01:
        yield f"activation is LeakyReLU with slope {module.negative_slope}"


def _parameter_obstacles(policy: ActorCriticPolicy) -> Iterator[str]:
    layers = [module for module in policy.modules() if isinstance(module, nn.Linear)]
    known = {id(parameter) for layer in layers for parameter in layer.parameters()}
    known.add(id(getattr(policy, "log_std", None)))
    used = [*linear_layers(policy.mlp_extractor.policy_net), *linear_layers(policy.mlp_extractor.value_net)]
    heads = 3 if isinstance(policy, PhasicPolicy) else 2  # its auxiliary head rides along without a gradient
    if len({id(layer) for layer, _ in used}) != len(used) or len(layers) != len(used) + heads:
        yield "policy and value network share layers, or there are layers beside theirs"
    for name, parameter in policy.named_parameters():
        if parameter.device.type != "cpu":
            yield f"device is {parameter.device.type}"
        if parameter.dtype != torch.float32:
            yield f"{name} is {parameter.dtype}"
        if not parameter.requires_grad:
            yield f"{name} is frozen"
        if parameter._backward_hooks:
            yield f"{name} has hooks"
        if id(parameter) not in known:
            yield f"{name} is not a parameter of the two perceptrons"


def has_other_step(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a user's function stands in the place of ``step``; PyTorch's schedulers put one there that counts."""
    step = vars(optimizer).get("step")
    return step is not None and not hasattr(step, "_wrapped_by_lr_sched")


def _optimizer_obstacles(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> Iterator[str]:
    if type(optimizer) not in OPTIMIZERS:
        yield f"optimizer is {type(optimizer).__name__}"
        return
    if len(optimizer.param_groups) != 1:
        yield "optimizer has several parameter groups"
    group = optimizer.param_groups[0]
    for option in UNSUPPORTED_OPTIONS:
        if group.get(option):
            yield f"optimizer option {option} is set"
    if not group["eps"] > 0:  # the padding between parameters would become 0 / 0
        yield f"optimizer option eps is {group['eps']}"
    if {id(parameter) for parameter in group["params"]} != {id(parameter) for parameter in parameters}:
        yield "optimizer does not hold all parameters"
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        yield "optimizer has hooks"
    if has_other_step(optimizer):
        yield "optimizer has another step"
