"""Proximal policy optimisation (Schulman et al. 2017): epochs of clipped minibatch steps over one rollout.

A2C runs through the same learner: one epoch, one batch of everything, the plain objective.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proximo.augmentation import Augmentation, Mirror, augment, augmentation_terms
from proximo.augmentation.symmetry import mirror_rollout, paired_orders
from proximo.backends.base import Rows, UpdateReport
from proximo.backends.runtime import Runtime
from proximo.config import UpdateSettings
from proximo.data import Metrics, Minibatch
from proximo.files.encoding import register_class
from proximo.functional.losses import (
    TERMS,
    LossTerms,
    approximate_kl,
    clip_fraction,
    clipped_surrogate,
    entropy_loss,
    normalize,
    plain_objective,
    value_columns,
    value_errors,
)
from proximo.learners.metrics import common_metrics, count_skipped
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.distributions.divergence import parameter_rows
from proximo.networks.optimizers import update_learning_rate
from proximo.rollout.minibatches import keep_valid
from proximo.rollout.storage import RolloutBuffer, is_stock


class PPOLearner:
    """Updates a policy from a rollout and returns metrics; network, memory and random generator are the runtime's.

    A subclass with a loss of its own overrides :meth:`loss_terms`; the policy then runs through PyTorch, since the
    kernels know PPO's loss only, and ``model.backend`` says so.
    """

    # what the kernels do by themselves
    in_kernels: ClassVar[tuple[str, ...]] = ("regularized_terms", "loss_terms", "combine", "evaluate")
    augmentation: Augmentation | None = None
    _doubled: RolloutBuffer | None = None  # the rollout and its mirror images

    def __init__(self, runtime: Runtime) -> None:
        """Arguments:
        runtime: Who holds the policy, its memory, its backend and the random generator.
        """
        self.runtime = runtime

    @property
    def policy(self) -> ActorCriticPolicy:
        """The policy that is trained."""
        return self.runtime.policy

    def obstacle(self) -> str | None:
        """Why the kernels cannot descend this learner's loss; None if they can."""
        if self.augmentation is not None and not isinstance(self.augmentation, Mirror):
            return "observations are augmented"
        for name in self.in_kernels:
            if name in vars(self) or getattr(type(self), name) is not getattr(PPOLearner, name):
                return f"{type(self).__name__} overrides {name}"
        return None

    def update(self, buffer: RolloutBuffer, settings: UpdateSettings) -> Metrics:
        """Train on one rollout with its advantages; stops early where ``target_kl`` says so."""
        self.policy.set_training_mode(True)
        update_learning_rate(self.policy.optimizer, settings.learning_rate)
        orders = self.orders(buffer, settings.n_epochs)
        trained, changed = buffer, settings
        if isinstance(self.augmentation, Mirror):
            trained, orders = self._with_mirror_images(self.augmentation, buffer, orders)
            changed = settings.changed(batch_size=2 * settings.batch_size)
        report = self.runtime.backend.update(trained, orders, changed, self.regularized_terms)
        return self.metrics(report, buffer, settings)

    def _with_mirror_images(
        self, mirror: Mirror, buffer: RolloutBuffer, orders: NDArray[np.int64]
    ) -> tuple[RolloutBuffer, NDArray[np.int64]]:
        """A rollout with twice the environments, and orders in which a sample's mirror image follows it."""
        doubled, size = self._doubled, (buffer.buffer_size, 2 * buffer.n_envs)
        if doubled is None or (doubled.buffer_size, doubled.n_envs) != size:
            spaces = buffer.observation_space, buffer.action_space
            doubled = self._doubled = RolloutBuffer(size[0], *spaces, device=buffer.device, n_envs=size[1])
        mirror_rollout(mirror, buffer.rollout, doubled.rollout, buffer.action_space)
        doubled.pos, doubled.full = doubled.buffer_size, True
        return doubled, paired_orders(orders, buffer.n_envs)

    def orders(self, buffer: RolloutBuffer, epochs: int) -> NDArray[np.int64]:
        """The order of the samples in each epoch, [epoch, sample]; a user's buffer has an order of its own."""
        if not is_stock(buffer):
            return np.empty((epochs, 0), np.int64)
        indices = buffer.rollout.training_indices()
        return np.stack([self.runtime.generator.permutation(indices) for _ in range(epochs)])

    def regularized_terms(self, batch: Minibatch, settings: UpdateSettings) -> LossTerms:
        """What an update descends: :meth:`loss_terms`, and with an augmentation aug_coef · (G_π + G_V) of DrAC."""
        terms = self.loss_terms(batch, settings)
        if self.augmentation is None or isinstance(self.augmentation, Mirror):
            return terms
        # the plain side is a constant; computed as the other one, so that equal observations give exactly equal outputs
        plain_values, _, _ = self.evaluate(batch)
        plain_rows = parameter_rows(self.policy.action_dist).detach()
        observations = augment(self.augmentation, batch.observations)
        values, _, _ = self.evaluate(batch._replace(observations=observations))
        augmented = augmentation_terms(plain_rows, plain_values, self.policy.action_dist, values, batch.valid)
        extra = {**terms.extra, "aug_policy_loss": augmented.policy, "aug_value_loss": augmented.value}
        return terms._replace(loss=terms.loss + settings.aug_coef * (augmented.policy + augmented.value), extra=extra)

    def loss_terms(self, batch: Minibatch, settings: UpdateSettings) -> LossTerms:
        """The loss of a minibatch under the policy as it is."""
        return self.combine(*self.evaluate(batch), keep_valid(batch), settings)

    @staticmethod
    def combine(
        values: Tensor, log_prob: Tensor, entropy: Tensor | None, batch: Minibatch, settings: UpdateSettings
    ) -> LossTerms:
        """L = L_policy + ent_coef · L_entropy + vf_coef · L_value over one minibatch of shape [batch]."""
        advantages = normalize(batch.advantages) if settings.normalize_advantage else batch.advantages
        log_ratio = log_prob - batch.old_log_prob
        ratio = torch.exp(log_ratio)
        match settings.objective:
            case "clipped":
                policy_loss = clipped_surrogate(advantages, ratio, settings.clip_range)
            case "plain":
                policy_loss = plain_objective(advantages, log_prob)
            case unknown:
                raise ValueError(f"objective is {unknown!r}; expected 'clipped' or 'plain'")
        value_loss = value_errors(
            values, batch.old_values, batch.returns, settings.clip_range_vf, settings.pessimistic_value
        )
        of_entropy = entropy_loss(entropy, log_prob)
        loss = policy_loss + settings.ent_coef * of_entropy + settings.vf_coef * value_loss
        with torch.no_grad():
            divergence, clipped = approximate_kl(log_ratio), clip_fraction(ratio, settings.clip_range)
        return LossTerms(policy_loss, value_loss, of_entropy, divergence, clipped, loss)

    def evaluate(self, batch: Minibatch) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values, log-probabilities and entropies of the rows that train, [row] each."""
        actions = self.shaped_actions(batch)
        options = {} if batch.action_masks is None else {"action_masks": batch.action_masks}
        if batch.lstm_states is not None:
            memory = batch.lstm_states, batch.episode_starts
            evaluated = self.policy.evaluate_actions(batch.observations, actions, *memory, **options)  # type: ignore[arg-type, call-arg]
        else:
            evaluated = self.policy.evaluate_actions(batch.observations, actions, **options)
        values, log_prob, entropy = evaluated
        values = value_columns(values)
        if batch.valid is None:
            return values, log_prob, entropy
        return values[batch.valid], log_prob[batch.valid], None if entropy is None else entropy[batch.valid]

    def shaped_actions(self, batch: Minibatch) -> Tensor:
        """Actions of a minibatch as the distribution takes them."""
        space = self.policy.action_space
        discrete = space.shape == () and not np.issubdtype(space.dtype, np.floating)
        return batch.actions.long().flatten() if discrete else batch.actions

    def metrics(self, report: UpdateReport, buffer: RolloutBuffer, settings: UpdateSettings) -> Metrics:
        """What an update tells of itself, by the names of the log."""
        rows = np.concatenate(report.epochs)
        mean = mean_terms(rows)
        metrics = {
            "entropy_loss": float(mean.entropy_loss),
            "policy_gradient_loss": float(mean.policy_loss),
            "value_loss": float(mean.value_loss),
            "approx_kl": float(mean_terms(report.epochs[-1]).approx_kl),
            "clip_fraction": float(mean.clip_fraction),
            "loss": float(rows[-1, -1]),
            "learning_rate": settings.learning_rate,
            "epochs": float(len(report.epochs)),
            "clip_range": settings.clip_range,
            **{name: float(np.nanmean(values)) for name, values in report.extra.items()},
            **common_metrics(self.policy, buffer, self.runtime.reduce),
        }
        if settings.clip_range_vf is not None:
            metrics["clip_range_vf"] = settings.clip_range_vf
        if settings.skip_non_finite:
            count_skipped(metrics, int(np.isnan(rows[:, -1]).sum()), len(rows))
        return metrics


def mean_terms(rows: Rows) -> LossTerms:
    """Mean over the minibatches that were applied; NaN when all of them were skipped."""
    applied = rows[~np.isnan(rows[:, -1])]
    return LossTerms(*(applied.mean(axis=0) if len(applied) else np.full(TERMS, np.nan)))


register_class("PPOLearner", PPOLearner)
