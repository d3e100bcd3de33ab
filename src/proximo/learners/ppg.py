"""Phasic policy gradient (Cobbe et al. 2020, https://arxiv.org/abs/2009.04416): PPO plus one short auxiliary phase.

After every few updates of PPO, whose value leaves the policy's network alone, the policy's network learns to predict
the returns of all rollouts since, while a divergence term holds the policy where it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proximo.backends.fused import FusedBackend
from proximo.backends.torch_backend import TorchBackend
from proximo.data import Array, Metrics
from proximo.errors import NonFiniteError
from proximo.functional.losses import UpdateSettings
from proximo.learners.ppo import PPOLearner, non_finite_update
from proximo.networks.distributions.divergence import kl_from_rows, parameter_rows
from proximo.networks.flat_parameters import FlatParameters
from proximo.networks.phasic import PhasicPolicy
from proximo.rollout.phase import PhaseBatch, PhaseBuffer
from proximo.rollout.storage import RolloutBuffer

MOMENTS = ("exp_avg", "exp_avg_sq")  # what Adam remembers of each parameter


@dataclass(frozen=True, kw_only=True)
class AuxiliarySettings:
    """What an auxiliary phase needs to know, and the value's own number of epochs."""

    learning_rate: float
    value_epochs: int
    epochs: int
    minibatches: int  # per epoch
    accumulate: int  # minibatches per step
    kl_coef: float
    max_grad_norm: float
    skip_non_finite: bool = False  # pass by a step whose gradient is no number, instead of stopping


class Unit(NamedTuple):
    """What the auxiliary phase measures returns with."""

    mean: float
    deviation: float  # at least 1


class FlatAdam:
    """Adam over all of a policy's flat memory as one parameter: one call steps everything.

    Parameters without a gradient, and the padding between parameters, have the gradient 0 and stay.
    """

    def __init__(self, flat: FlatParameters, eps: float) -> None:
        self.eps = eps
        self.bind(flat)

    def bind(self, flat: FlatParameters) -> None:
        """Work on another memory of the same layout, with the moments of before."""
        previous = self.moments() if hasattr(self, "flat") else {}
        self.flat = flat
        self._whole = nn.Parameter(flat.data)
        self._adam = torch.optim.Adam([self._whole], eps=self.eps, fused=True)
        self.load_moments(previous)

    def descend(self, learning_rate: float, max_grad_norm: float) -> None:
        """One step against the gradients in the flat memory, their norm cut to ``max_grad_norm``."""
        gradients = self.flat.gradients
        norm = self.flat.gradient_norm()
        if not torch.isfinite(norm):
            raise NonFiniteError(f"the gradient norm is {float(norm)}")
        gradients.mul_(torch.clamp(max_grad_norm / (norm + 1e-6), max=1.0))
        self._whole.grad = gradients
        self._adam.param_groups[0]["lr"] = learning_rate
        self._adam.step()

    def moments(self) -> dict[str, Tensor]:
        """Adam's memory by name of parameter (``"value_net.bias.exp_avg"``), and its count of steps (``"step"``)."""
        state = self._adam.state[self._whole]
        if not state:
            return {}
        found = {
            f"{segment.name}.{moment}": segment.view(state[moment])
            for segment in self.flat.segments
            for moment in MOMENTS
        }
        return found | {"step": state["step"]}

    @torch.no_grad()
    def load_moments(self, moments: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`moments` gave; nothing is the state before the first step."""
        self._adam.state.clear()
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
        self._adam.state[self._whole] = {"step": step.clone(), **flat}


class PPGLearner:
    """Owns a PPO learner for the policy phase, the rollouts of the phase, and an optimiser for the auxiliary phase."""

    def __init__(
        self,
        policy: PhasicPolicy,
        backend: TorchBackend | FusedBackend,
        generator: np.random.Generator,
        phase: PhaseBuffer,
    ) -> None:
        self.policy, self.phase, self.generator = policy, phase, generator
        self.policy_phase = PPOLearner(policy, backend, generator)
        self.optimizer = FlatAdam(backend.flat, eps=float(policy.optimizer.param_groups[0].get("eps", 1e-8)))

    def bind(self, policy: PhasicPolicy, backend: TorchBackend | FusedBackend) -> None:
        """Go on with another backend, after the policy's parameters have moved or parts of it were replaced."""
        if backend is self.policy_phase.backend:
            return
        same_layout = _layout(backend.flat) == _layout(self.optimizer.flat)
        self.policy = policy
        self.policy_phase = PPOLearner(policy, backend, self.generator)
        if same_layout:
            self.optimizer.bind(backend.flat)
        else:  # another network: nothing is known of it
            self.optimizer = FlatAdam(backend.flat, self.optimizer.eps)

    def update(self, buffer: RolloutBuffer, settings: UpdateSettings, auxiliary: AuxiliarySettings) -> Metrics:
        """Train on one rollout with its advantages; an auxiliary phase follows when the last of its rollouts is in.

        The metrics are PPO's, and of an auxiliary phase ``aux_value_loss`` and ``kl_loss``.
        """
        metrics = self._policy_update(buffer, settings, auxiliary.value_epochs)
        self.phase.add(buffer.rollout)
        if self.phase.full:
            metrics |= self.auxiliary_update(auxiliary)
            self.phase.clear()
        return metrics

    # -- the policy phase

    def _policy_update(self, buffer: RolloutBuffer, settings: UpdateSettings, value_epochs: int) -> Metrics:
        if settings.normalize_advantage:
            buffer.advantages = normalized(buffer.advantages, buffer.rollout.valid)
            settings = replace(settings, normalize_advantage=False)
        common = min(settings.n_epochs, value_epochs)
        metrics = self.policy_phase.update(buffer, replace(settings, n_epochs=common))
        surplus = replace(settings, n_epochs=max(settings.n_epochs, value_epochs) - common)
        if value_epochs > common:
            self._surplus_epochs(buffer, surplus, of_value=True)
        elif settings.n_epochs > common:
            metrics["epochs"] += self._surplus_epochs(buffer, surplus, of_value=False)
        return metrics

    def _surplus_epochs(self, buffer: RolloutBuffer, settings: UpdateSettings, of_value: bool) -> int:
        """Further epochs of the policy or of the value alone; how many were begun before ``target_kl`` ended them."""
        epochs = 0
        for epoch in self.policy_phase.minibatches(buffer, settings):
            epochs += 1
            for index, batch in enumerate(epoch):
                terms = self.policy_phase.loss_terms(batch, settings)
                if settings.target_kl is not None and float(terms.approx_kl) > 1.5 * settings.target_kl:
                    return epochs
                policy_loss = terms.policy_loss + settings.ent_coef * terms.entropy_loss
                self._surplus_step(settings.vf_coef * terms.value_loss if of_value else policy_loss, settings, index)
        return epochs

    def _surplus_step(self, loss: Tensor, settings: UpdateSettings, index: int) -> None:
        optimizer = self.policy.optimizer
        optimizer.zero_grad()  # what gets no gradient is passed by, its momentum too
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.policy.parameters(), settings.max_grad_norm)
        if torch.isfinite(norm):
            optimizer.step()
        elif not settings.skip_non_finite:
            raise non_finite_update(index)

    # -- the auxiliary phase

    def auxiliary_update(self, settings: AuxiliarySettings) -> Metrics:
        """Descend ½(V_aux − R)² + ½(V − R)² + kl_coef · KL(old ‖ new) over all rollouts of the phase.

        The auxiliary head learns the distance of R from the mean of the phase, and where returns are spread widely
        (games without normalised rewards) the first two terms count in units of their deviation: they would outweigh
        the divergence, and the policy would be lost.
        """
        unit = self._unit_of_returns()
        self.policy.set_training_mode(True)
        flat = self.optimizer.flat
        flat.bind_gradients()
        with self.policy.auxiliary_phase():
            old = self._old_rows()
            losses: list[Tensor] = []
            for _ in range(settings.epochs):
                minibatches = list(self.phase.epoch(settings.minibatches, self.generator))
                for start in range(0, len(minibatches), settings.accumulate):
                    rows = np.concatenate(minibatches[start : start + settings.accumulate])
                    losses.append(self._auxiliary_step(rows, old, unit, settings))
        flat.zero_gradients()  # the policy phase has none for the auxiliary head
        mean = torch.stack(losses).nanmean(dim=0)  # steps that were passed by count as NaN
        return {"aux_value_loss": float(mean[0]), "kl_loss": float(mean[1])}

    def _unit_of_returns(self) -> Unit:
        returns = self.phase.returns[self.phase.valid & np.isfinite(self.phase.returns)]
        return Unit(float(returns.mean()), max(1.0, float(returns.std())))

    @torch.no_grad()
    def _old_rows(self) -> Tensor:
        """The policy's distribution at every row of the phase, before the phase changes it: [row, parameter]."""
        everything = np.arange(self.phase.samples)
        rows = [
            parameter_rows(self.policy.evaluate_auxiliary(chunk.observations, chunk.action_masks).distribution)
            for chunk in self.phase.chunks(everything, self.policy.device)
        ]
        return torch.cat(rows)

    def _auxiliary_step(self, rows: NDArray[np.int64], old: Tensor, unit: Unit, settings: AuxiliarySettings) -> Tensor:
        """One step over ``rows``, whose gradient is gathered chunk by chunk; [auxiliary value loss, divergence]."""
        self.optimizer.flat.zero_gradients()
        total = torch.zeros(2, device=self.policy.device)
        for chunk in self.phase.chunks(rows, self.policy.device):
            total += self._accumulate(chunk, old, len(rows), unit, settings.kl_coef)
        try:
            self.optimizer.descend(settings.learning_rate, settings.max_grad_norm)
        except NonFiniteError as error:
            if settings.skip_non_finite:
                return torch.full_like(total, math.nan)
            raise NonFiniteError(
                f"{error} in the auxiliary phase; the step was not applied. A smaller aux_learning_rate, or "
                "VecNormalize around the environment, usually cures this"
            ) from error
        return total

    def _accumulate(self, batch: PhaseBatch, old: Tensor, count: int, unit: Unit, kl_coef: float) -> Tensor:
        """Add a chunk's share of the gradient of the mean over ``count`` rows."""
        found = self.policy.evaluate_auxiliary(batch.observations, batch.action_masks)
        distance = (batch.returns - unit.mean) / unit.deviation
        auxiliary_loss = 0.5 * (found.auxiliary_values - distance).square().sum() / count
        value_loss = 0.5 * ((found.values - batch.returns) / unit.deviation).square().sum() / count
        divergence = kl_from_rows(old[batch.rows], found.distribution).sum() / count
        (auxiliary_loss + value_loss + kl_coef * divergence).backward()
        return torch.stack([auxiliary_loss.detach(), divergence.detach()])

    # -- what a checkpoint keeps

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """All that the next updates depend on beside policy and random generator; memory is not copied."""
        return {"optimizer": dict(self.optimizer.moments()), "phase": self.phase.state()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Take over what :meth:`state_dict` gave."""
        self.optimizer.load_moments(state["optimizer"])
        self.phase.load_state(state["phase"])


def normalized(advantages: Array, valid: Array | None) -> Array:
    """Zero mean and unit deviation over the steps of a rollout that train."""
    chosen = advantages if valid is None else advantages[valid]
    if chosen.size < 2:
        return advantages
    return (advantages - chosen.mean()) / (chosen.std(ddof=1) + 1e-8)


def _layout(flat: FlatParameters) -> list[tuple[str, torch.Size]]:
    return [(segment.name, segment.parameter.shape) for segment in flat.segments]
