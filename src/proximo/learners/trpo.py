"""Trust-region policy optimisation (Schulman et al. 2015, https://arxiv.org/abs/1502.05477).

One natural-gradient step of the policy per rollout, as long as the divergence from the old policy allows, then the
value network is fitted to the returns in minibatches.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from proximo.backends.gradient_step import GradientStep
from proximo.backends.runtime import Runtime
from proximo.config import TRPOConfig
from proximo.data import Metrics, Minibatch
from proximo.errors import NonFiniteError
from proximo.files.encoding import register_class
from proximo.functional.losses import normalize, value_columns, value_errors
from proximo.learners.metrics import common_metrics, count_skipped
from proximo.learners.trust_region import (
    assign_values,
    conjugate_gradient,
    fisher_product,
    flat_gradient,
    flat_values,
    influential,
    largest_step,
)
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.distributions import Distribution, kl_divergence
from proximo.networks.distributions.base import frozen
from proximo.networks.optimizers import update_learning_rate
from proximo.rollout.minibatches import take
from proximo.rollout.sharding import Reduce, Weighted, weighted_epochs
from proximo.rollout.storage import RolloutBuffer, is_stock


class Surrogate:
    """What the policy step maximises, L(θ) = E[π_θ(a|s) / π_old(a|s) · A], and what limits it, KL(π_θ ‖ π_old)."""

    def __init__(
        self,
        policy: ActorCriticPolicy,
        batch: Minibatch,
        normalize_advantage: bool,
        weight: float | None = None,
        reduce: Reduce | None = None,
    ) -> None:
        """``weight`` is the share of the rows that is here, None for all; ``reduce`` then sums over processes.

        Arguments:
            policy: The policy that is to move.
            batch: The samples, the whole rollout or every n-th of it.
            normalize_advantage: Whether advantages get zero mean and unit deviation.
            weight: Share of these rows among those of all processes.
            reduce: Sums over the processes that train together; None where there is one.
        """
        self.policy, self.batch, self.weight = policy, batch, weight
        self.reduce = None if weight is None else reduce
        self.advantages = normalize(batch.advantages) if normalize_advantage else batch.advantages
        with torch.no_grad():
            self.old_distribution = frozen(self._distribution())

    def __call__(self) -> tuple[Tensor, Tensor]:
        """Objective and divergence under the policy's current parameters, this process's share of them.

        The divergence is the mean over the batch, and over the parts of continuous and binary actions, as in
        sb3-contrib, so that a ``target_kl`` means the same there.
        """
        distribution = self._distribution()
        ratio = torch.exp(distribution.log_prob(self.batch.actions) - self.batch.old_log_prob)
        objective = (self.advantages * ratio).mean()
        divergence = kl_divergence(distribution, self.old_distribution).mean()
        return (objective, divergence) if self.weight is None else (objective * self.weight, divergence * self.weight)

    @torch.no_grad()
    def totals(self, parts: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Objective and divergence of all processes; NaN where the distribution cannot be made."""
        try:
            objective, divergence = self() if parts is None else parts
        except ValueError:  # torch's: after so long a step a deviation is 0, or the logits are NaN
            objective = divergence = torch.tensor(math.nan, device=self.advantages.device)
        if self.reduce is None:
            return objective, divergence
        both = torch.stack([objective, divergence]).detach()
        self.reduce(both)
        return both[0], both[1]

    def _distribution(self) -> Distribution:
        masks = self.batch.action_masks
        options = {} if masks is None else {"action_masks": masks}
        return self.policy.get_distribution(self.batch.observations, **options)


class PolicyStep(NamedTuple):
    """How the line search ended; where it found nothing, the policy is the old one.

    Arguments:
        objective: What the surrogate became.
        divergence: How far the policy moved, in mean KL divergence.
        succeeded: Whether the line search found a step.
    """

    objective: float
    divergence: float
    succeeded: bool


class TRPOLearner:
    """Updates a policy from a rollout and returns metrics; network, memory and random generator are the runtime's."""

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
        """Nothing: kernels only collect for TRPO, its update is PyTorch's."""
        return None

    def update(self, buffer: RolloutBuffer, settings: TRPOConfig, skip_non_finite: bool = False) -> Metrics:
        """Train on one rollout with its advantages; ``settings`` is the configuration with its schedules evaluated."""
        self.policy.set_training_mode(True)
        actor, step = self._improve_policy(buffer, settings, skip_non_finite)
        losses = self._fit_values(buffer, settings, self._critic(actor), skip_non_finite)
        applied = [loss for loss in losses if loss is not None]
        metrics: Metrics = {
            "policy_objective": step.objective,
            "value_loss": float(torch.stack(applied).mean()) if applied else math.nan,
            "kl_divergence_loss": step.divergence,
            "is_line_search_success": float(step.succeeded),
            "learning_rate": float(settings.learning_rate),  # type: ignore[arg-type]
            **common_metrics(self.policy, buffer, self.runtime.reduce),
        }
        count_skipped(metrics, len(losses) - len(applied), len(losses))
        return metrics

    # -- the policy: one step along the natural gradient

    def _improve_policy(
        self, buffer: RolloutBuffer, settings: TRPOConfig, skip_non_finite: bool
    ) -> tuple[list[nn.Parameter], PolicyStep]:
        """Step the policy; returns its parameters too, which are those that its distribution depends on."""
        batch, weight = next(self._epoch(buffer, None, settings.sub_sampling_factor, settings.normalize_advantage))
        normalize_here = settings.normalize_advantage and weight is None
        surrogate = Surrogate(self.policy, batch, normalize_here, weight, self.runtime.reduce)
        objective, divergence = surrogate()
        start = float(surrogate.totals((objective.detach(), divergence.detach()))[0])
        actor = influential(divergence, [part for part in self.policy.parameters() if part.requires_grad])
        try:
            step = natural_step(objective, divergence, actor, settings, surrogate.reduce)
        except NonFiniteError as error:
            if not skip_non_finite:
                raise
            warnings.warn(f"the policy's step was skipped: {error}", stacklevel=2)
            return actor, PolicyStep(start, 0.0, succeeded=False)
        return actor, line_search(surrogate, actor, step, start, settings)

    # -- the value network: minibatches of gradient steps

    def _critic(self, actor: Sequence[nn.Parameter]) -> list[nn.Parameter]:
        """All but the policy's parameters: those they share must not leave the trust region with the value's step."""
        taken = {id(parameter) for parameter in actor}
        return [part for part in self.policy.parameters() if part.requires_grad and id(part) not in taken]

    def _fit_values(
        self, buffer: RolloutBuffer, settings: TRPOConfig, critic: Sequence[nn.Parameter], skip_non_finite: bool
    ) -> list[Tensor | None]:
        """Least squares to the returns; the losses of the minibatches, None of one that was skipped."""
        update_learning_rate(self.policy.optimizer, settings.learning_rate)  # type: ignore[arg-type] # evaluated
        step = self.runtime.gradient_step()
        return [
            self._fit_minibatch(step, batch, weight, critic, skip_non_finite)
            for _ in range(settings.n_critic_updates)
            for batch, weight in self._epoch(buffer, settings.batch_size)
        ]

    def _fit_minibatch(
        self,
        step: GradientStep,
        batch: Minibatch,
        weight: float | None,
        critic: Sequence[nn.Parameter],
        skip_non_finite: bool,
    ) -> Tensor | None:
        """One step of the parameters that are the value's alone; returns its loss, None if it was skipped."""
        values = value_columns(self.policy.predict_values(batch.observations))
        loss = value_errors(values, batch.old_values, batch.returns)
        if weight is not None:
            loss = loss * weight
        total = loss.detach().clone().reshape(1)
        norm = step.gradient(partial(loss.backward, inputs=list(critic)), critic, total)
        if step.apply(torch.isfinite(norm), norm):
            return total[0]
        if skip_non_finite:
            return None
        raise non_finite("value network")

    def _epoch(
        self, buffer: RolloutBuffer, batch_size: int | None, every: int = 1, normalize_shared: bool = False
    ) -> Iterator[Weighted]:
        """Every so many samples of the rollout, in random order and minibatches; None is one batch of everything.

        Where other processes hold rows too, ``normalize_shared`` lets advantages come normalised.
        """
        if not is_stock(buffer):
            return ((every_nth(every, batch), None) for batch in buffer.get(batch_size))
        order = self.runtime.generator.permutation(buffer.rollout.sample_indices())[::every]
        size, device = batch_size or len(order), self.policy.device
        return next(weighted_epochs(buffer, order[None], size, device, normalize_shared, self.runtime.reduce))


def every_nth(factor: int, batch: Minibatch) -> Minibatch:
    """Every ``factor``-th sample of a batch."""
    if factor == 1:
        return batch
    return take(batch, torch.arange(0, len(batch.advantages), factor, device=batch.advantages.device))


def natural_step(
    objective: Tensor,
    divergence: Tensor,
    actor: Sequence[nn.Parameter],
    settings: TRPOConfig,
    reduce: Reduce | None = None,
) -> Tensor:
    """F⁻¹ ∇L, as long as the quadratic model of the divergence allows; ``reduce`` sums over processes."""
    gradient = flat_gradient(objective, actor, retain_graph=True)
    if reduce is not None:
        reduce(gradient)
    if not torch.isfinite(gradient).all():
        raise non_finite("policy")
    product = fisher_product(divergence, actor, settings.cg_damping, reduce)
    direction = conjugate_gradient(product, gradient, settings.cg_max_steps)
    return largest_step(direction, product(direction), settings.target_kl)


@torch.no_grad()
def line_search(
    surrogate: Surrogate, actor: Sequence[nn.Parameter], step: Tensor, objective: float, settings: TRPOConfig
) -> PolicyStep:
    """Shorten ``step`` until it improves the objective within the trust region, or give it up and stay."""
    start = flat_values(actor)
    for attempt in range(settings.line_search_max_iter):
        assign_values(actor, start + settings.line_search_shrinking_factor**attempt * step)
        new_objective, divergence = surrogate.totals()
        if divergence < settings.target_kl and new_objective > objective:
            return PolicyStep(float(new_objective), float(divergence), succeeded=True)
    assign_values(actor, start)
    return PolicyStep(objective, 0.0, succeeded=False)


def non_finite(network: str) -> NonFiniteError:
    """The error that stops a training whose step is no number."""
    return NonFiniteError(
        f"NaN or infinity in the gradient of the {network}; it was not applied, so the weights are still finite. "
        "VecNormalize around the environment, or a smaller learning_rate for the value network, usually cures this"
    )


register_class("TRPOLearner", TRPOLearner)
