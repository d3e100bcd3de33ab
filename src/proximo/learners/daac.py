"""Decoupled advantage actor-critic (Raileanu & Fergus 2021, https://arxiv.org/abs/2102.10330).

Few epochs of the policy, which also learns to tell the advantages of actions, and many of the value, apart from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from proximo.augmentation import augment
from proximo.backends.base import non_finite_update
from proximo.config import DAACConfig, UpdateSettings
from proximo.data import Metrics, Minibatch
from proximo.files.encoding import register_class
from proximo.functional.losses import approximate_kl, clip_fraction, clipped_surrogate, entropy_loss, value_errors
from proximo.learners.metrics import common_metrics, count_skipped
from proximo.learners.ppg import normalized
from proximo.learners.ppo import PPOLearner
from proximo.networks.decoupled import DecoupledPolicy
from proximo.networks.distributions.divergence import kl_from_rows, parameter_rows
from proximo.networks.optimizers import update_learning_rate
from proximo.rollout.storage import RolloutBuffer

Terms = dict[str, Tensor]  # "loss" is descended, the others are reported


class DAACLearner(PPOLearner):
    """Updates policy and value from a rollout, each by its own loss, and returns metrics.

    Arguments:
        runtime: Who holds the policy, its memory, its backend and the random generator.
    """

    policy: DecoupledPolicy
    updates = 0  # of the policy, which say when it is the value's turn

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in cls.in_kernels:
            if name in vars(cls):
                raise TypeError(
                    f"{cls.__name__} overrides {name}, which DAAC does not call; override actor_terms or critic_terms"
                )

    def obstacle(self) -> str | None:
        return "DAAC trains policy and value apart"

    def update(  # type: ignore[override]
        self, buffer: RolloutBuffer, settings: UpdateSettings, decoupled: DAACConfig
    ) -> Metrics:
        """Train on one rollout with its advantages; ``decoupled`` is the configuration with its schedules evaluated."""
        policy = self.policy
        policy.set_training_mode(True)
        update_learning_rate(policy.optimizer, settings.learning_rate)
        if settings.normalize_advantage:
            buffer.advantages = normalized(buffer.advantages, buffer.rollout.valid)
        metrics: Metrics = {}
        self._epochs(
            metrics, buffer, settings, settings.n_epochs, policy.actor_parameters(),
            lambda batch: self.actor_terms(batch, settings, decoupled.adv_coef),
        )  # fmt: skip
        if self.updates % decoupled.value_frequency == 0:
            self._epochs(
                metrics, buffer, settings, decoupled.value_epochs, policy.critic_parameters(),
                lambda batch: self.critic_terms(batch, settings),
            )  # fmt: skip
        self.updates += 1
        metrics.pop("loss", None)
        return metrics | {"learning_rate": settings.learning_rate, **common_metrics(policy, buffer)}

    def actor_terms(self, batch: Minibatch, settings: UpdateSettings, adv_coef: float) -> Terms:
        """L_policy + ent_coef · L_entropy + adv_coef · E[(Â − A)²], Â being what the policy's network says.

        With an augmentation also aug_coef · KL(π(·|s) ‖ π(·|f(s))), DrAC's term of the policy.
        """
        masks = {} if batch.action_masks is None else {"action_masks": batch.action_masks}
        outputs = self.policy.evaluate_actor(batch.observations, self.shaped_actions(batch), **masks)
        log_ratio = outputs.log_prob - batch.old_log_prob
        ratio = torch.exp(log_ratio)
        terms = {
            "policy_gradient_loss": clipped_surrogate(batch.advantages, ratio, settings.clip_range),
            "entropy_loss": entropy_loss(outputs.entropy, outputs.log_prob),
            "advantage_loss": functional.mse_loss(outputs.advantages, batch.advantages),
        }
        weights = {"policy_gradient_loss": 1.0, "entropy_loss": settings.ent_coef, "advantage_loss": adv_coef}
        if self.augmentation is not None:
            plain = parameter_rows(self.policy.action_dist).detach()
            augmented = augment(self.augmentation, batch.observations)
            distribution = self.policy.get_distribution(augmented, **masks)
            terms["aug_policy_loss"] = kl_from_rows(plain, distribution).mean()
            weights["aug_policy_loss"] = settings.aug_coef
        loss = torch.stack([weights[name] * term for name, term in terms.items()]).sum()
        with torch.no_grad():
            measured = {
                "approx_kl": approximate_kl(log_ratio),
                "clip_fraction": clip_fraction(ratio, settings.clip_range),
            }
        return {"loss": loss, **terms, **measured}

    def critic_terms(self, batch: Minibatch, settings: UpdateSettings) -> Terms:
        """vf_coef · E[(V − R)²], clipped as the settings say; with an augmentation DrAC's term of the value too."""
        values = self.policy.predict_values(batch.observations).flatten()
        error = value_errors(
            values, batch.old_values, batch.returns, settings.clip_range_vf, settings.pessimistic_value
        )
        terms = {"loss": settings.vf_coef * error, "value_loss": error}
        if self.augmentation is not None:
            augmented = augment(self.augmentation, batch.observations)
            distance = (values.detach() - self.policy.predict_values(augmented).flatten()).square().mean()
            terms |= {"loss": terms["loss"] + settings.aug_coef * distance, "aug_value_loss": distance}
        return terms

    def _epochs(
        self,
        metrics: Metrics,
        buffer: RolloutBuffer,
        settings: UpdateSettings,
        epochs: int,
        parameters: list[nn.Parameter],
        terms_of: Callable[[Minibatch], Terms],
    ) -> None:
        """Minibatch steps of one of the two, which are added to the metrics."""
        step = self.runtime.gradient_step()
        rows: list[Terms] = []
        skipped = 0
        for epoch in buffer.epochs(self.orders(buffer, epochs), settings.batch_size, self.policy.device):
            for index, batch in enumerate(epoch):
                with self.runtime.autocast():
                    terms = terms_of(batch)
                norm = step.gradient(terms["loss"].backward, parameters)
                finite = torch.isfinite(norm) & torch.isfinite(terms["loss"].detach())
                limit = settings.target_kl
                if limit is not None and bool(finite) and float(terms.get("approx_kl", 0.0)) > 1.5 * limit:
                    return _add(metrics, rows or [terms], skipped)
                if step.apply(finite, norm, settings.max_grad_norm):
                    rows.append({name: term.detach() for name, term in terms.items()})
                elif not settings.skip_non_finite:
                    raise non_finite_update(index)
                else:
                    skipped += 1
        return _add(metrics, rows, skipped)


def _add(metrics: Metrics, rows: list[Terms], skipped: int) -> None:
    """The mean of each term over the minibatches, and how many were left out."""
    metrics.update({name: float(np.mean([float(row[name]) for row in rows])) for name in (rows[0] if rows else ())})
    count_skipped(metrics, skipped, len(rows) + skipped)


register_class("DAACLearner", DAACLearner)
