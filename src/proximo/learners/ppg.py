"""Phasic policy gradient (Cobbe et al. 2020, https://arxiv.org/abs/2009.04416): PPO plus one short auxiliary phase.

After every few updates of PPO, whose value leaves the policy's network alone, the policy's network learns to predict
the returns of all rollouts since, while a divergence term holds the policy where it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proximo.augmentation import Augmentation
from proximo.backends.base import non_finite_update
from proximo.backends.gradient_step import GradientStep
from proximo.backends.runtime import Runtime
from proximo.config import PPGConfig, UpdateSettings
from proximo.data import Array, Metrics, Minibatch
from proximo.errors import NonFiniteError
from proximo.files.encoding import register_class
from proximo.functional.losses import LossTerms
from proximo.learners.metrics import count_skipped
from proximo.learners.ppo import PPOLearner
from proximo.learners.trust_region import influential
from proximo.networks.distributions.divergence import kl_from_rows, parameter_rows
from proximo.networks.flat_parameters import FlatParameters
from proximo.networks.phasic import PhasicPolicy
from proximo.rollout.phase import PhaseBatch, PhaseBuffer
from proximo.rollout.sharding import Reduce, moments, weighted_epochs
from proximo.rollout.storage import RolloutBuffer

MOMENTS = ("exp_avg", "exp_avg_sq")  # what Adam remembers of each parameter


class Unit(NamedTuple):
    """What the auxiliary phase measures returns with.

    Arguments:
        mean: What is taken from returns.
    """

    mean: float
    deviation: float  # at least 1


class FlatAdam:
    """Adam over all of a policy's flat memory as one parameter: one call steps everything.

    Parameters without a gradient, and the padding between parameters, have the gradient 0 and stay.
    """

    def __init__(self, flat: FlatParameters, eps: float) -> None:
        """Arguments:
        flat: Parameters and gradients in flat memory.
        eps: Adam's ε, against division by zero.
        """
        self.eps = eps
        self.bind(flat)

    def bind(self, flat: FlatParameters) -> None:
        """Work on another memory of the same layout, with the moments of before."""
        previous = self.moments() if hasattr(self, "flat") else {}
        self.flat = flat
        self._whole = nn.Parameter(flat.data)
        self._whole.grad = flat.gradients
        self.adam = torch.optim.Adam([self._whole], eps=self.eps, fused=True)
        self.load_moments(previous)

    def set_eps(self, eps: float) -> None:
        """Change Adam's ε."""
        self.eps = self.adam.param_groups[0]["eps"] = eps

    def rest_frozen(self) -> None:
        """Forget the momentum of parameters that were frozen since: without a gradient they would still move."""
        for segment in self.flat.segments:
            if not segment.parameter.requires_grad and (state := self.adam.state[self._whole]):
                for moment in MOMENTS:
                    segment.view(state[moment]).zero_()

    def moments(self) -> dict[str, Tensor]:
        """Adam's memory by name of parameter (``"value_net.bias.exp_avg"``), and its count of steps (``"step"``)."""
        state = self.adam.state[self._whole]
        if not state:
            return {}
        named = {
            f"{segment.name}.{moment}": segment.view(state[moment])
            for segment in self.flat.segments
            for moment in MOMENTS
        }
        return named | {"step": state["step"]}

    @torch.no_grad()
    def load_moments(self, moments: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`moments` gave; nothing is the state before the first step."""
        self.adam.state.clear()
        if not moments:
            return
        flat = {moment: torch.zeros_like(self.flat.data) for moment in MOMENTS}
        for segment in self.flat.segments:
            for moment in MOMENTS:
                given = moments.get(f"{segment.name}.{moment}")
                if given is None or given.shape != segment.parameter.shape:
                    raise ValueError(
                        f"the auxiliary optimiser's {moment} of {segment.name} is "
                        f"{None if given is None else tuple(given.shape)}, expected {tuple(segment.parameter.shape)}"
                    )
                segment.view(flat[moment]).copy_(given)
        step = torch.as_tensor(moments["step"], dtype=torch.float32, device=self.flat.data.device)
        self.adam.state[self._whole] = {"step": step.clone(), **flat}


class PPGLearner:
    """Owns a PPO learner for the policy phase, the rollouts of the phase, and an optimiser for the auxiliary phase."""

    policy_phase_class: ClassVar[type[PPOLearner]] = PPOLearner

    def __init__(self, runtime: Runtime, phase: PhaseBuffer) -> None:
        """Arguments:
        runtime: Who holds the policy, its memory, its backend and the random generator.
        phase: Memory for the rollouts of a phase.
        """
        self.runtime, self.phase = runtime, phase
        self.policy_phase = self.policy_phase_class(runtime)
        self._optimizer: FlatAdam | None = None

    @property
    def policy(self) -> PhasicPolicy:
        """The policy that is trained."""
        return self.runtime.policy  # type: ignore[return-value]

    @property
    def augmentation(self) -> Augmentation | None:
        """Of the policy phase."""
        return self.policy_phase.augmentation

    @augmentation.setter
    def augmentation(self, augmentation: Augmentation | None) -> None:
        self.policy_phase.augmentation = augmentation

    def obstacle(self) -> str | None:
        """Why the kernels cannot do the policy phase; None if they can."""
        return self.policy_phase.obstacle()

    def update(self, buffer: RolloutBuffer, settings: UpdateSettings, phases: PPGConfig) -> Metrics:
        """Train on one rollout with its advantages; an auxiliary phase follows when the last of its rollouts is in.

        ``phases`` is the configuration with its schedules evaluated. The metrics are PPO's, and of an auxiliary phase
        ``aux_value_loss`` and ``kl_loss``.
        """
        metrics = self.policy_update(buffer, settings, phases.value_epochs)
        self.phase.add(buffer.rollout)
        if self.phase.full:
            self.auxiliary_update(phases, settings.skip_non_finite, metrics)
            self.phase.clear()
        return metrics

    @property
    def optimizer(self) -> FlatAdam:
        """The auxiliary phase's optimiser, over the flat memory of this moment."""
        flat, previous = self.runtime.flat, self._optimizer
        if previous is not None and previous.flat is flat:
            return previous
        if previous is not None and _layout(flat) == _layout(previous.flat):
            previous.bind(flat)
            return previous
        # the first one, or another network, of which nothing is known
        self._optimizer = FlatAdam(flat, eps=float(self.policy.optimizer.param_groups[0].get("eps", 1e-8)))
        return self._optimizer

    def resize_phase(self, rollouts: int) -> None:
        """Change the number of rollouts per phase; a phase that has begun is finished as it is."""
        phase = self.phase
        if rollouts != phase.rollouts and not phase.stored:
            self.phase = PhaseBuffer(
                rollouts,
                phase.steps,
                phase.environments_of_all,
                phase.observation_space,
                phase.mask_width,
                phase.share,
            )

    # -- the policy phase

    def policy_update(self, buffer: RolloutBuffer, settings: UpdateSettings, value_epochs: int) -> Metrics:
        """PPO on one rollout, which the auxiliary phase does not get to know."""
        if settings.normalize_advantage:
            reduce = None if buffer.rollout.share is None else self.runtime.reduce
            buffer.advantages = normalized(buffer.advantages, buffer.rollout.valid, reduce)
            settings = settings.changed(normalize_advantage=False)
        common = min(settings.n_epochs, value_epochs)
        metrics = self.policy_phase.update(buffer, settings.changed(n_epochs=common))
        surplus = max(settings.n_epochs, value_epochs) - common
        if surplus:
            begun, taken = self._surplus_epochs(buffer, settings, surplus, of_value=value_epochs > common)
            metrics["epochs"] += 0 if value_epochs > common else begun
            count_skipped(metrics, taken.count(False), len(taken))
        return metrics

    def _surplus_epochs(
        self, buffer: RolloutBuffer, settings: UpdateSettings, epochs: int, of_value: bool
    ) -> tuple[int, list[bool]]:
        """Further epochs of the policy or of the value alone: how many were begun, and which steps were taken."""
        orders, step = self.policy_phase.orders(buffer, epochs), self.runtime.gradient_step()
        parameters: list[nn.Parameter] | None = None  # those that the loss depends on; the others stay as they are
        begun, taken = 0, list[bool]()
        minibatches = weighted_epochs(
            buffer, orders, settings.batch_size, self.policy.device, settings.normalize_advantage, self.runtime.reduce
        )
        for epoch in minibatches:
            begun += 1
            for index, (batch, weight) in enumerate(epoch):
                with self.runtime.autocast():
                    loss, terms = self._half_of_loss(batch, settings, of_value)
                parameters = parameters or influential(loss, [p for p in self.policy.parameters() if p.requires_grad])
                terms, norm = step.shared_gradient(terms, loss, weight, parameters)
                if settings.target_kl is not None and float(terms.approx_kl) > 1.5 * settings.target_kl:
                    return begun, taken
                taken.append(bool(step.apply(torch.isfinite(norm), norm, settings.max_grad_norm)))
                if not settings.skip_non_finite and not taken[-1]:
                    raise non_finite_update(index)
        return begun, taken

    def _half_of_loss(self, batch: Minibatch, settings: UpdateSettings, of_value: bool) -> tuple[Tensor, LossTerms]:
        terms = self.policy_phase.regularized_terms(batch, settings)
        if of_value:
            loss, augmented = settings.vf_coef * terms.value_loss, terms.extra.get("aug_value_loss")
        else:
            loss = terms.policy_loss + settings.ent_coef * terms.entropy_loss
            augmented = terms.extra.get("aug_policy_loss")
        return (loss if augmented is None else loss + settings.aug_coef * augmented), terms

    # -- the auxiliary phase

    def auxiliary_update(
        self, phases: PPGConfig, skip_non_finite: bool = False, metrics: Metrics | None = None
    ) -> Metrics:
        """Descend ½(V_aux − R)² + ½(V − R)² + kl_coef · KL(old ‖ new) over all rollouts of the phase.

        The auxiliary head learns the distance of R from the mean of the phase, and where returns are spread widely
        (games without normalised rewards) the first two terms count in units of their deviation: they would outweigh
        the divergence, and the policy would be lost. What it tells is added to ``metrics``.
        """
        metrics = {} if metrics is None else metrics
        unit = self._unit_of_returns()
        self.policy.set_training_mode(True)
        optimizer = self.optimizer
        rate = phases.learning_rate if phases.aux_learning_rate is None else phases.aux_learning_rate
        optimizer.adam.param_groups[0]["lr"] = rate
        optimizer.rest_frozen()
        step = self.runtime.gradient_step(optimizer.adam)
        with self.policy.auxiliary_phase():
            old = self._old_rows()
            losses: list[Tensor] = []
            for _ in range(phases.aux_epochs):
                minibatches = list(self.phase.epoch(phases.num_aux_mini_batch, self.runtime.generator))
                together = range(0, len(minibatches), phases.num_aux_grad_accum)
                parts = [np.concatenate(minibatches[start : start + phases.num_aux_grad_accum]) for start in together]
                for rows, count in zip(parts, self._counts(parts), strict=True):
                    losses.append(self._auxiliary_step(step, rows, old, unit, phases, skip_non_finite, count))
        step.flat.zero_gradients()  # the policy phase has none for the auxiliary head
        told = torch.stack(losses)  # of steps that were skipped NaN
        metrics["aux_value_loss"], metrics["kl_loss"] = told.nanmean(dim=0).tolist()
        count_skipped(metrics, int(told[:, 0].isnan().sum()), len(told))
        return metrics

    def _counts(self, parts: Sequence[NDArray[np.int64]]) -> list[int]:
        """Rows of each part, with those of other processes."""
        counts = torch.tensor([float(len(rows)) for rows in parts], dtype=torch.float64)
        if self.phase.share is not None and self.runtime.reduce is not None:
            self.runtime.reduce(counts)
        return [int(count) for count in counts.tolist()]

    def _unit_of_returns(self) -> Unit:
        returns = self.phase.returns[self.phase.valid & np.isfinite(self.phase.returns)]
        if self.phase.share is not None:
            of_returns = moments([returns], self.runtime.reduce)
            return Unit(float(of_returns.mean[0]), max(1.0, math.sqrt(of_returns.variance[0])))
        return Unit(float(returns.mean()), max(1.0, float(returns.std())))

    @torch.no_grad()
    def _old_rows(self) -> Tensor:
        """The policy's distribution at every row that is here, before the phase changes it: [row, parameter]."""
        everything = np.arange(self.phase.own_samples)
        with self.runtime.autocast():
            rows = [
                parameter_rows(self.policy.evaluate_auxiliary(chunk.observations, chunk.action_masks).distribution)
                for chunk in self.phase.chunks(everything, self.policy.device)
            ]
        return torch.cat(rows)

    def _auxiliary_step(
        self,
        step: GradientStep,
        rows: NDArray[np.int64],
        old: Tensor,
        unit: Unit,
        phases: PPGConfig,
        skip_non_finite: bool = False,
        count: int | None = None,
    ) -> Tensor:
        """One step over ``rows``, whose gradient is gathered chunk by chunk; [auxiliary value loss, divergence].

        ``count`` is the number of rows of all processes, where others have some too.
        """
        count = len(rows) if count is None else count
        total = torch.zeros(2, device=self.policy.device)

        def accumulate() -> None:
            for chunk in self.phase.chunks(rows, self.policy.device) if len(rows) else ():
                total.add_(self._accumulate(chunk, old, count, unit, phases.kl_coef))

        norm = step.gradient(accumulate, tail=total)
        if step.apply(torch.isfinite(norm), norm, phases.max_grad_norm):
            return total
        if skip_non_finite:
            return torch.full_like(total, math.nan)
        raise NonFiniteError(
            f"the gradient norm is {float(norm)} in the auxiliary phase; the step was not applied. A smaller "
            "aux_learning_rate, or VecNormalize around the environment, usually cures this"
        )

    def _accumulate(self, batch: PhaseBatch, old: Tensor, count: int, unit: Unit, kl_coef: float) -> Tensor:
        """Add a chunk's share of the gradient of the mean over ``count`` rows."""
        with self.runtime.autocast():
            outputs = self.policy.evaluate_auxiliary(batch.observations, batch.action_masks)
            distance = (batch.returns - unit.mean) / unit.deviation
            auxiliary_loss = 0.5 * (outputs.auxiliary_values - distance).square().sum() / count
            value_loss = 0.5 * ((outputs.values - batch.returns) / unit.deviation).square().sum() / count
            divergence = kl_from_rows(old[batch.rows], outputs.distribution).sum() / count
        (auxiliary_loss + value_loss + kl_coef * divergence).backward()
        return torch.stack([auxiliary_loss.detach(), divergence.detach()])

    # -- what a checkpoint keeps

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """All that the next updates depend on beside policy and random generator; memory is not copied."""
        phase, group = self.phase.state(), self.runtime.group
        if self.phase.share is not None and group is not None and phase["stored"]:
            parts = group.gather(phase, "a checkpoint")
            arrays = {
                name: np.concatenate([part[name] for part in parts], axis=1) for name in phase if name != "stored"
            }
            phase = {"stored": phase["stored"], **arrays}
        return {"optimizer": dict(self.optimizer.moments()), "phase": phase}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Take over what :meth:`state_dict` gave."""
        self.optimizer.load_moments(state["optimizer"])
        phase, share = state["phase"], self.phase.share
        if share is not None:
            phase = {name: value if name == "stored" else value[:, share.rows] for name, value in phase.items()}
        self.phase.load_state(phase)


def normalized(advantages: Array, valid: Array | None, reduce: Reduce | None = None) -> Array:
    """Zero mean and unit deviation over the steps of a rollout that train; ``reduce`` sums over processes."""
    chosen = advantages if valid is None else advantages[valid]
    if reduce is not None:
        of_chosen = moments([chosen.reshape(-1)], reduce)
        if of_chosen.count[0] < 2:
            return advantages
        return (advantages - np.float32(of_chosen.mean[0])) / np.float32(of_chosen.deviation[0] + 1e-8)
    if chosen.size < 2:
        return advantages
    return (advantages - chosen.mean()) / (chosen.std(ddof=1) + 1e-8)


def _layout(flat: FlatParameters) -> list[tuple[str, torch.Size]]:
    return [(segment.name, segment.parameter.shape) for segment in flat.segments]


register_class("PPGLearner", PPGLearner)
