"""Policies, rollouts and a plain PyTorch update that the kernels are held against."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from hypothesis import strategies as st
from torch import nn

from proximo.backends.fused import FusedBackend
from proximo.config import PPOConfig, UpdateSettings
from proximo.data import Rollout
from proximo.functional.actions import mask_groups
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.flat_parameters import FlatParameters
from proximo.networks.maskable import MaskableActorCriticPolicy

ACTIVATIONS = [nn.Tanh, nn.ReLU, nn.ELU, nn.LeakyReLU, nn.SiLU, nn.Sigmoid]

widths = st.lists(st.integers(1, 40) | st.just(64), max_size=3)
action_spaces = st.one_of(
    st.integers(2, 9).map(spaces.Discrete),
    st.lists(st.integers(2, 6), min_size=1, max_size=4).map(spaces.MultiDiscrete),
    st.integers(1, 6).map(spaces.MultiBinary),
    st.integers(1, 6).map(lambda size: spaces.Box(-1.0, 1.0, (size,))),
)
state_dependent_noise = st.fixed_dictionaries(
    {
        "use_sde": st.just(True),
        "full_std": st.booleans(),
        "use_expln": st.booleans(),
        "log_std_init": st.sampled_from([-1.0, 0.0]),
    }
)


@st.composite
def policies(draw: Any) -> ActorCriticPolicy:
    actions, options = draw(action_spaces), {}
    if isinstance(actions, spaces.Box):
        options = draw(st.just({}) | state_dependent_noise)
    elif isinstance(actions, spaces.MultiBinary):
        options = {"kind": draw(st.sampled_from([ActorCriticPolicy, MaskableActorCriticPolicy]))}
    features, seed = draw(st.integers(1, 20)), draw(st.integers(0, 99))
    net_arch, activation = {"pi": draw(widths), "vf": draw(widths)}, draw(st.sampled_from(ACTIVATIONS))
    return make_policy(spaces.Box(-np.inf, np.inf, (features,)), actions, net_arch, activation, seed, **options)


def make_policy(
    observations: spaces.Space[Any],
    actions: spaces.Space[Any],
    net_arch: Any = None,
    activation: type[nn.Module] = nn.Tanh,
    seed: int = 0,
    kind: type[ActorCriticPolicy] = ActorCriticPolicy,
    **kwargs: Any,
) -> ActorCriticPolicy:
    """A policy with weights far enough from their start that every part of it matters."""
    torch.manual_seed(seed)
    policy = kind(observations, actions, lambda _: 1e-3, net_arch, activation, **kwargs)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return policy


def make_backend(
    policy: ActorCriticPolicy, seed: int = 0, threads: int | None = None, sde_sample_freq: int = -1
) -> FusedBackend:
    flat = FlatParameters(policy, policy.optimizer)
    return FusedBackend(policy, flat, np.random.default_rng(seed), threads, sde_sample_freq)


def twin(policy: ActorCriticPolicy) -> ActorCriticPolicy:
    """The same policy with memory and optimiser of its own."""
    if policy.use_sde:
        with torch.no_grad():
            policy.reset_noise()  # matrices that remember how they were made cannot be copied
    other = copy.deepcopy(policy)
    other.optimizer = type(policy.optimizer)(other.parameters(), **policy.optimizer.defaults)
    return other


def empty_rollout(steps: int, environments: int, policy: ActorCriticPolicy, rng: np.random.Generator) -> Rollout:
    """Random observations, the rest zero."""
    shape = (steps, environments)
    size = {spaces.Discrete: 1}.get(type(policy.action_space)) or int(np.prod(policy.action_space.shape))
    return Rollout(
        observations=rng.standard_normal((*shape, *policy.observation_space.shape)).astype(np.float32),
        actions=np.zeros((*shape, size), policy.action_space.dtype),
        last_values=np.zeros(environments, np.float32),
        **{name: np.zeros(shape, np.bool_) for name in ("episode_starts", "terminated", "truncated")},
        **{
            name: np.zeros(shape, np.float32)
            for name in ("rewards", "values", "log_probs", "bootstrap_values", "advantages", "returns")
        },
    )


def random_masks(policy: ActorCriticPolicy, leading: tuple[int, ...], share: float, seed: int = 0) -> np.ndarray | None:
    """About this share of the actions is allowed, and at least one of each choice; None where nothing can be masked."""
    rng, groups = np.random.default_rng(seed), mask_groups(policy.action_space)
    parts = []
    for size in groups:
        part = rng.random((*leading, size)) < share
        np.put_along_axis(part, rng.integers(size, size=(*leading, 1)), True, axis=-1)
        parts.append(part)
    return np.concatenate(parts, axis=-1) if groups else None


def torch_masks(rollout: Rollout) -> torch.Tensor | None:
    masks = rollout.action_masks
    return None if masks is None else torch.from_numpy(masks.reshape(-1, masks.shape[-1]))


def collected_rollout(
    backend: FusedBackend, steps: int, environments: int, seed: int = 0, allowed: float | None = None
) -> Rollout:
    """A rollout of the backend's own actions, with random advantages and with log-probabilities of an older policy.

    If a share of the actions that are ``allowed`` is given, the others are masked.
    """
    rng = np.random.default_rng(seed)
    rollout = empty_rollout(steps, environments, backend.policy, rng)
    if allowed is not None:
        rollout.action_masks = random_masks(backend.policy, (steps, environments), allowed, seed)
    backend.start_rollout(steps, environments)
    for step in range(steps):
        backend.act(rollout.observations[step], rollout, step)
    rollout.log_probs += rng.normal(0, 0.15, rollout.log_probs.shape).astype(np.float32)
    rollout.values += rng.normal(0, 0.3, rollout.values.shape).astype(np.float32)
    rollout.advantages[:] = rng.standard_normal(rollout.advantages.shape)
    rollout.returns[:] = rng.standard_normal(rollout.returns.shape)
    return rollout


def settings_with(**changes: Any) -> UpdateSettings:
    defaults = {
        "learning_rate": 1e-3, "batch_size": 64, "n_epochs": 1, "clip_range": 0.2, "clip_range_vf": None,
        "normalize_advantage": True, "ent_coef": 0.01, "vf_coef": 0.5, "max_grad_norm": 0.5, "target_kl": None,
    }  # fmt: skip
    return UpdateSettings.of(PPOConfig(), 1.0, **(defaults | changes))


def torch_actions(policy: ActorCriticPolicy, actions: np.ndarray) -> torch.Tensor:
    rows = torch.from_numpy(actions.reshape(-1, actions.shape[-1]).copy())
    return rows.flatten() if isinstance(policy.action_space, spaces.Discrete) else rows


class NearThreshold(Exception):
    """A sample lies so near to a clipping bound, or to a kink of an activation, that rounding decides its gradient."""


def torch_epoch(
    policy: ActorCriticPolicy, rollout: Rollout, order: np.ndarray, settings: UpdateSettings
) -> tuple[np.ndarray, int | None]:
    """PPO's minibatch steps in plain PyTorch. Returns the terms per minibatch, and where the KL stopped it."""
    hooks = [
        module.register_forward_pre_hook(lambda _, inputs: check_distance(inputs[0], 1e-6))
        for module in policy.modules()
        if isinstance(module, nn.ReLU | nn.LeakyReLU)
    ]
    try:
        return _torch_epoch(policy, rollout, order, settings)
    finally:
        for hook in hooks:
            hook.remove()


def _torch_epoch(
    policy: ActorCriticPolicy, rollout: Rollout, order: np.ndarray, settings: UpdateSettings
) -> tuple[np.ndarray, int | None]:
    samples = rollout.steps * rollout.environments
    observations = torch.from_numpy(rollout.observations.reshape(samples, -1))
    actions, masks = torch_actions(policy, rollout.actions), torch_masks(rollout)
    rows = []
    for index, start in enumerate(range(0, len(order), settings.batch_size)):
        batch = torch.from_numpy(order[start : start + settings.batch_size])
        old_values, old_log_probs, advantages, returns = (
            torch.from_numpy(array.reshape(samples))[batch]
            for array in (rollout.values, rollout.log_probs, rollout.advantages, rollout.returns)
        )
        if settings.normalize_advantage and len(batch) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        allowed = None if masks is None else masks[batch]
        values, log_probs, entropy = policy.evaluate_actions(observations[batch], actions[batch], allowed)
        values = values.flatten()
        log_ratio = log_probs - old_log_probs
        ratio = log_ratio.exp()
        surrogate = advantages * log_probs
        if settings.objective == "clipped":
            surrogate = torch.min(
                advantages * ratio, advantages * ratio.clamp(1 - settings.clip_range, 1 + settings.clip_range)
            )
            check_distance((ratio - 1).abs() - settings.clip_range)
        if settings.clip_range_vf is not None:
            change = values - old_values
            check_distance(change.abs() - settings.clip_range_vf)
            clipped_values = old_values + change.clamp(-settings.clip_range_vf, settings.clip_range_vf)
            if settings.pessimistic_value:
                further = (values - returns).abs() > (clipped_values - returns).abs()
                clipped_values = torch.where(further, values, clipped_values)
            values = clipped_values
        policy_loss, value_loss, entropy_loss = -surrogate.mean(), ((returns - values) ** 2).mean(), -entropy.mean()
        loss = policy_loss + settings.ent_coef * entropy_loss + settings.vf_coef * value_loss
        divergence = (ratio - 1 - log_ratio).mean()
        clipped = ((ratio - 1).abs() > settings.clip_range).float().mean()
        terms = (policy_loss, value_loss, entropy_loss, divergence, clipped, loss)
        rows.append([term.item() for term in terms])
        if settings.target_kl is not None and divergence > 1.5 * settings.target_kl:
            return np.array(rows), index
        policy.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), settings.max_grad_norm)
        for group in policy.optimizer.param_groups:
            group["lr"] = settings.learning_rate
        policy.optimizer.step()
    return np.array(rows), None


def check_distance(distances: torch.Tensor, least: float = 1e-5) -> None:
    if distances.abs().min() < least:
        raise NearThreshold


def parameter_distance(one: nn.Module, other: nn.Module) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


def draw_actions(backend: FusedBackend, observations: Any) -> Any:
    """What environments get for [env, …] observations."""
    rollout = empty_rollout(1, len(observations), backend.policy, np.random.default_rng(0))
    backend.start_rollout(1, len(observations))
    return backend.act(observations, rollout, 0)
