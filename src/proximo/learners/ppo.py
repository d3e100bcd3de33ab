"""Proximal policy optimisation (Schulman et al. 2017): epochs of clipped minibatch steps over one rollout.

A2C runs through the same learner: one epoch, one batch of everything, the plain objective.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proximo.backends.fused import FusedBackend
from proximo.backends.torch_backend import TorchBackend
from proximo.data import Metrics, Minibatch
from proximo.errors import NonFiniteError
from proximo.functional.losses import LossTerms, UpdateSettings, actor_critic_loss
from proximo.learners.metrics import common_metrics
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.rollout.minibatches import epoch_minibatches, keep_valid, on_device
from proximo.rollout.storage import RolloutBuffer, is_stock

# [minibatch, term]: the terms of LossTerms, in their order; the loss, the last of them, is NaN where it was passed by
Rows = NDArray[np.float64]


class PPOLearner:
    """Updates a policy from a rollout; returns metrics and keeps nothing but its random generator."""

    def __init__(
        self, policy: ActorCriticPolicy, backend: TorchBackend | FusedBackend, generator: np.random.Generator
    ) -> None:
        self.policy = policy
        self.backend = backend
        self.generator = generator

    def update(self, buffer: RolloutBuffer, settings: UpdateSettings) -> Metrics:
        """Train on one rollout with its advantages; stops early where ``target_kl`` says so."""
        self.policy.set_training_mode(True)
        for group in self.policy.optimizer.param_groups:
            group["lr"] = settings.learning_rate
        if isinstance(self.backend, FusedBackend):
            epochs = self._fused_epochs(self.backend, buffer, settings)
        else:
            epochs = list(self._torch_epochs(self.backend, buffer, settings))
        return self._metrics(epochs, buffer, settings)

    def _fused_epochs(self, backend: FusedBackend, buffer: RolloutBuffer, settings: UpdateSettings) -> list[Rows]:
        indices = buffer.rollout.sample_indices()
        orders = np.stack([self.generator.permutation(indices) for _ in range(settings.n_epochs)])
        backend.start_update(buffer.rollout)
        rows, status = backend.ppo_epochs(orders, settings)  # one call: the second thread wakes once
        if status.non_finite:
            raise non_finite_update(status.minibatch)
        minibatches_per_epoch = -(-len(indices) // settings.batch_size)
        return [rows[start : start + minibatches_per_epoch] for start in range(0, len(rows), minibatches_per_epoch)]

    def _torch_epochs(self, backend: TorchBackend, buffer: RolloutBuffer, settings: UpdateSettings) -> Iterator[Rows]:
        for epoch in self.minibatches(buffer, settings):
            rows: list[list[float]] = []
            stopped = False
            for minibatch in epoch:
                terms, stopped = self._step(backend, minibatch, settings, len(rows))
                rows.append([float(term.detach()) for term in terms])
                if stopped:
                    break
            yield np.asarray(rows, np.float64)
            if stopped:
                return

    def minibatches(self, buffer: RolloutBuffer, settings: UpdateSettings) -> Iterator[Iterator[Minibatch]]:
        """The minibatches of each epoch; the rollout moves to the device once."""
        if not is_stock(buffer):
            yield from (buffer.get(settings.batch_size) for _ in range(settings.n_epochs))
            return
        rollout = buffer.rollout
        whole = on_device(rollout, self.policy.device)
        for _ in range(settings.n_epochs):
            yield epoch_minibatches(whole, rollout, self.generator.permutation, settings.batch_size)

    def _step(
        self, backend: TorchBackend, batch: Minibatch, settings: UpdateSettings, index: int
    ) -> tuple[LossTerms, bool]:
        """One gradient step; the KL is checked before it, so a bad minibatch is never applied."""
        terms = self.loss_terms(batch, settings)
        if settings.target_kl is not None and float(terms.approx_kl) > 1.5 * settings.target_kl:
            return terms, True
        try:
            backend.descend(terms.loss, settings.max_grad_norm)
        except NonFiniteError as error:
            if settings.skip_non_finite:
                return terms._replace(loss=torch.tensor(math.nan)), False
            raise non_finite_update(index) from error
        return terms, False

    def loss_terms(self, batch: Minibatch, settings: UpdateSettings) -> LossTerms:
        """The loss of a minibatch under the policy as it is."""
        values, log_prob, entropy = self._evaluate(batch)
        return actor_critic_loss(values, log_prob, entropy, keep_valid(batch), settings)

    def _evaluate(self, batch: Minibatch) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values, log-probabilities and entropies of the rows that train, [row] each."""
        actions = batch.actions.long().flatten() if self._discrete else batch.actions
        options = {} if batch.action_masks is None else {"action_masks": batch.action_masks}
        if batch.lstm_states is not None:
            memory = batch.lstm_states, batch.episode_starts
            found = self.policy.evaluate_actions(batch.observations, actions, *memory, **options)  # type: ignore[arg-type, call-arg]
        else:
            found = self.policy.evaluate_actions(batch.observations, actions, **options)
        values, log_prob, entropy = found
        if batch.valid is None:
            return values.flatten(), log_prob, entropy
        return values.flatten()[batch.valid], log_prob[batch.valid], None if entropy is None else entropy[batch.valid]

    @property
    def _discrete(self) -> bool:
        return self.policy.action_space.shape == () and not np.issubdtype(self.policy.action_space.dtype, np.floating)

    def _metrics(self, epochs: list[Rows], buffer: RolloutBuffer, settings: UpdateSettings) -> Metrics:
        rows = np.concatenate(epochs)
        mean = mean_terms(rows)
        metrics = {
            "entropy_loss": float(mean.entropy_loss),
            "policy_gradient_loss": float(mean.policy_loss),
            "value_loss": float(mean.value_loss),
            "approx_kl": float(mean_terms(epochs[-1]).approx_kl),
            "clip_fraction": float(mean.clip_fraction),
            "loss": float(LossTerms(*rows[-1]).loss),
            "learning_rate": settings.learning_rate,
            "epochs": float(len(epochs)),
            "clip_range": settings.clip_range,
            **common_metrics(self.policy, buffer),
        }
        if settings.clip_range_vf is not None:
            metrics["clip_range_vf"] = settings.clip_range_vf
        if settings.skip_non_finite and (skipped := int(np.isnan(rows[:, -1]).sum())):
            warnings.warn(f"{skipped} of {len(rows)} minibatches gave NaN or infinity and were skipped", stacklevel=2)
            metrics["skipped_minibatches"] = float(skipped)
        return metrics


def mean_terms(rows: Rows) -> LossTerms:
    """Mean over the minibatches that were applied; NaN when all of them were passed by."""
    applied = rows[~np.isnan(rows[:, -1])]
    return LossTerms(*(applied.mean(axis=0) if len(applied) else np.full(rows.shape[1], np.nan)))


def non_finite_update(minibatch: int) -> NonFiniteError:
    return NonFiniteError(
        f"NaN or infinity in the loss or its gradient at minibatch {minibatch} of the update; it was not applied, so "
        "the weights are still finite. A smaller learning_rate or max_grad_norm, or VecNormalize around the "
        "environment, usually cures this"
    )
