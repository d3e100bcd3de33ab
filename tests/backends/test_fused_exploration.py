"""State-dependent exploration in the kernels: the noise is a matrix times the latent, and lasts until it is redrawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fused_cases import (
    collected_rollout,
    draw_actions,
    empty_rollout,
    make_backend,
    make_policy,
    settings_with,
    torch_epoch,
    twin,
)
from gymnasium import spaces
from torch import nn

from rounding import LOSSES, assert_same_gradients, assert_same_training

BOX = spaces.Box(-np.inf, np.inf, (5,))
ACTIONS = spaces.Box(-50.0, 50.0, (3,))
NOISES = [{"full_std": full, "use_expln": expln} for full in (True, False) for expln in (True, False)]


def noisy_policy(net_arch=None, **options):
    """Log-deviations lie on both sides of 0, where ``use_expln`` changes its form."""
    return make_policy(BOX, ACTIONS, net_arch, use_sde=True, **({"log_std_init": 0.0} | options))


def means_and_latents(policy, rollout):
    with torch.no_grad():
        observations = torch.from_numpy(rollout.observations.reshape(-1, 5))
        latents = policy.mlp_extractor.forward_actor(observations)
        means = policy.action_net(latents)
    leading = rollout.actions.shape[:2]
    return means.numpy().reshape(*leading, -1), latents.numpy().reshape(*leading, -1)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("environments", "net_arch"), [(1, [10]), (3, [16, 7]), (17, [10]), (130, [8]), (6, [])])
def test_actions_are_mean_plus_latent_times_matrix(environments, net_arch, noise):
    policy = noisy_policy(net_arch, **noise)
    backend = make_backend(policy, seed=4, sde_sample_freq=3)
    rollout = empty_rollout(8, environments, policy, np.random.default_rng(0))
    backend.start_rollout(8, environments)
    for step in range(8):
        backend.act(rollout.observations[step], rollout, step)
    means, latents = means_and_latents(policy, rollout)
    generator = np.random.default_rng(4)
    deviations = policy.action_dist.get_std(policy.log_std.detach()).numpy()
    for step in range(8):
        if step % 3 == 0:
            normals = generator.standard_normal((environments, 3, latents.shape[-1]), dtype=np.float32)
            matrices = normals.transpose(0, 2, 1) * deviations
        noise = np.einsum("el,ela->ea", latents[step], matrices)
        np.testing.assert_allclose(rollout.actions[step], means[step] + noise, atol=1e-4)


def test_a_redraw_follows_deviations_that_somebody_changed():
    policy = noisy_policy([12])
    backend = make_backend(policy, sde_sample_freq=2)
    rollout = empty_rollout(4, 400, policy, np.random.default_rng(0))
    rollout.observations[:] = rollout.observations[0, 0]
    backend.start_rollout(4, 400)
    for step in range(4):
        if step == 1:
            with torch.no_grad():
                policy.log_std += np.log(10.0)
        backend.act(rollout.observations[step], rollout, step)
    spread = rollout.actions.std(axis=1)
    np.testing.assert_allclose(spread[1], spread[0], rtol=1e-5)
    np.testing.assert_allclose(spread[2] / spread[0], 10.0, rtol=0.2)


def test_without_a_frequency_one_matrix_lasts_a_rollout_and_the_next_has_another():
    policy = noisy_policy([12])
    backend = make_backend(policy)
    noises = []
    for _ in range(2):
        rollout = empty_rollout(20, 4, policy, np.random.default_rng(0))
        rollout.observations[:] = rollout.observations[0]
        backend.start_rollout(20, 4)
        for step in range(20):
            backend.act(rollout.observations[step], rollout, step)
        noises.append(rollout.actions - means_and_latents(policy, rollout)[0])
    np.testing.assert_allclose(noises[0], np.broadcast_to(noises[0][0], noises[0].shape), atol=1e-5)
    assert np.abs(noises[0] - noises[1]).min() > 1e-4


def test_variance_of_the_noise_is_what_the_log_probability_says():
    policy = noisy_policy([12], log_std_init=-0.5)
    observation = np.tile(np.random.default_rng(3).standard_normal(5, dtype=np.float32), (20_000, 1))
    chosen = draw_actions(make_backend(policy, seed=5), observation)
    with torch.no_grad():
        normal = policy.get_distribution(torch.from_numpy(observation[:1])).distribution
    mean, deviation = normal.mean.numpy()[0], normal.stddev.numpy()[0]
    assert np.all(np.abs(chosen.mean(0) - mean) < 4 * deviation / np.sqrt(20_000))
    assert np.all(np.abs(chosen.std(0) / deviation - 1) < 4 / np.sqrt(2 * 20_000))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("objective", ["clipped", "plain"])
def test_gradients_are_autograds(noise, objective):
    policy = noisy_policy({"pi": [20, 7], "vf": [33]}, activation=nn.Tanh, **noise)
    backend, reference = make_backend(policy), twin(policy)
    rollout = collected_rollout(backend, 75, 2)
    choices = settings_with(batch_size=150, max_grad_norm=1e9, ent_coef=0.05, objective=objective)
    backend.start_update(rollout)
    rows, _ = backend.ppo_epochs(np.arange(150)[None], choices)
    expected, _ = torch_epoch(reference, rollout, np.arange(150), choices)
    np.testing.assert_allclose(rows, expected, **LOSSES)
    pairs = zip(policy.named_parameters(), reference.parameters(), strict=True)
    assert_same_gradients({name: (one.grad, other.grad) for (name, one), other in pairs})
    assert np.abs(policy.log_std.grad.numpy()).min() > 0.0
    assert_same_training(policy, reference)


def test_the_policys_own_noise_still_works():
    policy = noisy_policy([12])
    backend = make_backend(policy)
    collected_rollout(backend, 5, 4)
    policy.reset_noise(4)
    observations = np.random.default_rng(0).standard_normal((4, 5), dtype=np.float32)
    first, _ = policy.predict(observations)
    again, _ = policy.predict(observations)
    policy.reset_noise(4)
    other, _ = policy.predict(observations)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3
