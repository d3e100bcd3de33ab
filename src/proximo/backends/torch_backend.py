"""The reference backend: any policy module, any device, through PyTorch's autograd."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proximo.backends.base import Loss, Precision, UpdateReport, non_finite_update
from proximo.backends.gradient_step import GradientStep, Reduce
from proximo.backends.noise import draw_noise, draw_normals
from proximo.backends.transfers import to_device, to_host
from proximo.config import UpdateSettings
from proximo.data import (
    Array,
    Minibatch,
    Observation,
    RNNStates,
    Rollout,
    Share,
    TensorObservation,
    observation_parts,
)
from proximo.functional.losses import TERMS, LossTerms, value_columns
from proximo.functional.statistics import check_finite_row
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.distributions import StateDependentNoiseDistribution
from proximo.networks.flat_parameters import FlatParameters
from proximo.networks.recurrent import RecurrentActorCriticPolicy
from proximo.rollout.sharding import weighted_epochs
from proximo.rollout.storage import RolloutBuffer


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Within it a network and its loss compute in ``precision``; parameters and optimiser stay float32."""
    return nullcontext() if precision == "float32" else torch.autocast(device.type, dtype=torch.bfloat16)


class TorchBackend:
    """Acts and steps with plain PyTorch over flat memory: one gradient norm, one optimiser call."""

    rounds_by_rows = False  # how PyTorch rounds a row may depend on the batch, but not in a way that could be chosen

    def __init__(
        self,
        policy: ActorCriticPolicy,
        flat: FlatParameters,
        generator: np.random.Generator,
        reason: str,
        *,
        sde_sample_freq: int = -1,
        precision: Precision = "float32",
        reduce: Reduce | None = None,
    ) -> None:
        """Every ``sde_sample_freq`` steps the matrices of state-dependent noise are redrawn; −1: once per rollout.

        Arguments:
            policy: The policy that acts and learns.
            flat: Its parameters and gradients in flat memory.
            generator: What noise is drawn from.
            reason: Why the kernels do not run it, in words.
            sde_sample_freq: Steps between new noise matrices of gSDE; -1 draws them once per rollout.
            precision: float32, or bf16 for autocast.
            reduce: Sums an array over the processes that train together; None where there is one.
        """
        self.policy, self.flat, self.generator = policy, flat, generator
        self.description = f"torch: {reason}"
        self.step = GradientStep(flat, policy.optimizer, reduce)
        self.sde_sample_freq = sde_sample_freq
        self.precision = precision
        self.states: RNNStates | None = None  # what a policy with memory remembers of the current episodes
        self._noise: Tensor | None = None  # [time, env, column] of the current rollout
        self._share: Share | None = None  # which of all processes' environments it acts in

    def is_current(self) -> bool:
        """Whether the policy's parameters are still where they were bound."""
        return self.flat.is_current()

    def _autocast(self) -> AbstractContextManager[object]:
        return autocast(self.precision, self.policy.device)

    # -- acting

    def start_rollout(self, steps: int, environments: int, share: Share | None = None) -> None:
        """Draw the random numbers of a whole rollout; they move to the device together."""
        self._share = share
        self.policy.set_training_mode(False)
        self._noise = None
        if kinds := self.policy.action_dist.noise_kinds:
            noise = np.empty((steps, environments, len(kinds)), np.float32)
            draw_noise(noise, kinds, self.generator, share)
            self._noise = torch.from_numpy(noise).to(self.policy.device)
        if self.policy.use_sde:
            self._redraw_matrices(environments)
        if isinstance(self.policy, RecurrentActorCriticPolicy):
            empty = self.policy.initial_states(environments)
            if self.states is None or self.states.shapes() != empty.shapes():  # the first rollout, or another network
                self.states = empty

    def _redraw_matrices(self, environments: int) -> None:
        distribution = self.policy.action_dist
        own = "reset_noise" in vars(self.policy) or type(self.policy).reset_noise is not ActorCriticPolicy.reset_noise
        if own or not isinstance(distribution, StateDependentNoiseDistribution):
            self.policy.reset_noise(environments)  # a user's own way to draw it
            return
        normals = np.empty((environments, distribution.action_dim, distribution.latent_sde_dim), np.float32)
        draw_normals(normals, self.generator, self._share)
        distribution.use_weights(torch.from_numpy(normals).to(self.policy.device), self.policy.log_std)

    @torch.no_grad()
    def act(self, observations: Observation, rollout: Rollout, step: int) -> Array:
        """Sample actions for [env, …] observations into row ``step``; returns them as the environment takes them."""
        # sampling from NaN logits would fail with torch's words, which name neither step nor environment
        check_finite_row("observation", observations, step)
        if self.policy.use_sde and self.sde_sample_freq > 0 and step and step % self.sde_sample_freq == 0:
            self._redraw_matrices(rollout.environments)
        starts = None if self.states is None else rollout.episode_starts[step].astype(np.float32)
        masks = None if rollout.action_masks is None else rollout.action_masks[step]
        tensors, starts_there, masks_there = self._inputs(observations, starts, masks)
        options = {} if masks_there is None else {"action_masks": masks_there}
        distribution = self.policy.action_dist
        distribution.noise = None if self._noise is None else self._noise[step]
        with self._autocast():
            if self.states is None:
                actions, values, log_probs = self.policy(tensors, **options)
            else:
                self._keep_states(self.states, rollout, step)
                actions, values, log_probs, self.states = self.policy(tensors, self.states, starts_there, **options)
        distribution.noise = None  # a user's distribution may not have taken it
        value_rows, log_prob_rows, columns = to_host([values.float(), log_probs.float(), actions])
        rollout.values[step] = value_rows[:, 0]
        if rollout.own_stream is not None:
            rollout.own_stream.values[step] = value_rows[:, 1]
        rollout.log_probs[step] = log_prob_rows[:, 0]
        rollout.actions[step] = columns.reshape(rollout.actions.shape[1:])
        chosen = rollout.actions[step].reshape(actions.shape).copy()  # an environment may keep its action
        return self.policy.bound_actions(chosen)

    def _inputs(
        self, observations: Observation, *others: Array | None
    ) -> tuple[TensorObservation, Tensor | None, Tensor | None]:
        """Observations, episode starts and masks on the policy's device, sent together."""
        parts = observation_parts(observations)
        given = [other for other in others if other is not None]
        sent = to_device([*parts, *given], self.policy.device)
        rest = iter(sent[len(parts) :])
        starts, masks = (None if other is None else next(rest) for other in others)
        if isinstance(observations, dict):
            return dict(zip(observations, sent, strict=False)), starts, masks
        return sent[0], starts, masks

    @staticmethod
    def _keep_states(states: RNNStates, rollout: Rollout, step: int) -> None:
        """Store what is remembered where a training sequence begins."""
        if step == 0:
            sequences = -(-rollout.steps // rollout.sequence_length)
            rollout.states = states.map(lambda part: part.new_zeros((sequences, *part.shape)))
        if step % rollout.sequence_length == 0 and rollout.states is not None:
            for memory, part in zip(rollout.states.parts(), states.parts(), strict=True):
                memory[step // rollout.sequence_length] = part

    @torch.no_grad()
    def values(
        self,
        observations: Observation,
        environments: NDArray[np.int64] | None = None,
        episode_starts: Array | None = None,
        share: Share | None = None,
    ) -> Array:
        """V for [batch, …] observations: [batch] float32; [batch, 2] for a policy with a second value."""
        starts = None
        if self.states is not None:
            rows = len(observation_parts(observations)[0])
            starts = (np.zeros(rows) if episode_starts is None else episode_starts).astype(np.float32)
        tensors, starts_there, _ = self._inputs(observations, starts, None)
        with self._autocast():
            if self.states is None:
                values = self.policy.predict_values(tensors)
            else:
                memory = self.states.vf
                if environments is not None:
                    chosen = torch.from_numpy(environments).to(self.policy.device)
                    memory = tuple(part.index_select(1, chosen) for part in memory)
                values = self.policy.predict_values(tensors, memory, starts_there)  # type: ignore[call-arg]
        return value_columns(values).float().cpu().numpy()

    # -- learning

    def update(
        self, buffer: RolloutBuffer, orders: NDArray[np.int64], settings: UpdateSettings, loss: Loss
    ) -> UpdateReport:
        """Epochs of gradient steps; what they report is read from the device once, at the end."""
        rows: list[Tensor] = []
        extra: dict[str, list[Tensor]] = {}
        counts = []
        minibatches = weighted_epochs(
            buffer, orders, settings.batch_size, self.policy.device, settings.normalize_advantage, self.step.reduce
        )
        if buffer.rollout.share is not None:
            settings = settings.changed(normalize_advantage=False)  # they come normalised
        for epoch in minibatches:
            counts.append(0)
            stopped = False
            for batch, weight in epoch:
                terms, stopped = self._minibatch(batch, settings, loss, len(rows), weight)
                rows.append(torch.stack([term.detach().float() for term in terms[:TERMS]]))  # type: ignore[union-attr]
                for name, term in terms.extra.items():
                    extra.setdefault(name, []).append(term.detach().float())
                counts[-1] += 1
                if stopped:
                    break
            if stopped:
                break
        terms_read = torch.stack(rows).cpu().numpy().astype(np.float64)
        if not settings.skip_non_finite and (skipped := np.flatnonzero(np.isnan(terms_read[:, -1]))).size:
            raise non_finite_update(int(skipped[0]))
        epochs = np.split(terms_read, np.cumsum(counts)[:-1])
        return UpdateReport(epochs, {name: torch.stack(terms).cpu().numpy() for name, terms in extra.items()})

    def _minibatch(
        self, batch: Minibatch, settings: UpdateSettings, loss: Loss, index: int, weight: float | None
    ) -> tuple[LossTerms, bool]:
        """One gradient step, and whether the KL divergence ends the update before it."""
        with self._autocast():
            terms = loss(batch, settings)
        terms, norm = self.step.shared_gradient(terms, terms.loss, weight)
        finite = torch.isfinite(norm) & torch.isfinite(terms.loss.detach())
        if settings.target_kl is not None and bool(finite) and float(terms.approx_kl) > 1.5 * settings.target_kl:
            return terms, True
        applied = self.step.apply(finite, norm, settings.max_grad_norm)
        if applied is False and not settings.skip_non_finite:  # an accelerator's answer is read after the update
            raise non_finite_update(index)
        return terms._replace(loss=torch.where(finite, terms.loss.detach(), math.nan)), False
