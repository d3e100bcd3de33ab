"""Running and training a perceptron policy with compiled kernels, on the memory of its own parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from proximo.backends.base import Loss, UpdateReport, non_finite_update, split_epochs
from proximo.backends.fused.features import feature_encoder
from proximo.backends.fused.obstacles import changeable, fused_obstacle
from proximo.backends.fused.plan import ActionTarget, PolicyPlan, Structure, UpdatePlan
from proximo.backends.fused.structures import CHUNK, FEW, UPDATE, Objective, Status
from proximo.backends.fused.threads import RoleThreads
from proximo.backends.gradient_step import GradientStep, Reduce
from proximo.backends.noise import draw_noise
from proximo.config import UpdateSettings
from proximo.data import Array, Observation, RNNStates, Rollout, Share
from proximo.functional.actions import stored_action_dtype
from proximo.functional.advantages import compiled_scan
from proximo.functional.spaces import get_action_dim
from proximo.functional.statistics import check_finite_row
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.distributions import StateDependentNoiseDistribution
from proximo.networks.flat_parameters import FlatParameters
from proximo.rollout.storage import RolloutBuffer

# fields of the kernels' record that hold a setting of the same name
TRANSLATED = ("objective", "clip_range_vf", "target_kl")  # None and words are numbers there
SAME_IN_RECORD = [name for name in UpdateSettings.names() if name in (UPDATE.names or ()) and name not in TRANSLATED]


def objective_of(settings: UpdateSettings) -> Objective:
    try:
        return Objective[settings.objective.upper()]
    except KeyError:
        raise ValueError(f"objective is {settings.objective!r}; expected 'clipped' or 'plain'") from None


def first_of_few(rows: int, share: Share | None = None) -> int:
    """From which of ``rows`` rows on the kernels run one by one: where few are left over from whole chunks.

    With a ``share`` as all processes' rows together would be run, so that each row rounds as it would there.

    >>> first_of_few(4), first_of_few(5), first_of_few(130)
    (0, 5, 128)
    >>> first_of_few(3, Share(5, 3, 8)), first_of_few(1, Share(3, 1, 4)), first_of_few(9, Share(124, 9, 133))
    (3, 0, 9)
    """
    first, total = (0, rows) if share is None else (share.first, share.total)
    left = total % CHUNK
    return min(max(total - (left if left <= FEW else 0) - first, 0), rows)


@dataclass(frozen=True)
class EpochStatus:
    """How an epoch ended, and at which of its minibatches; the minibatch that ended it early was not applied."""

    status: Status
    minibatch: int

    @property
    def stopped(self) -> bool:
        """The policy had moved further than ``target_kl`` allows."""
        return self.status is Status.KL_EXCEEDED

    @property
    def non_finite(self) -> bool:
        """The loss or its gradient was NaN or infinite."""
        return self.status is Status.NON_FINITE


class FusedBackend:
    """Acts and updates in one kernel call each. The policy's module sees every change, since the memory is its own."""

    description = "fused"
    states: RNNStates | None = None  # kernels run no policies with memory
    rounds_by_rows = True

    def __init__(
        self,
        policy: ActorCriticPolicy,
        flat: FlatParameters,
        generator: np.random.Generator,
        threads: int | None = None,
        sde_sample_freq: int = -1,
        reduce: Reduce | None = None,
    ) -> None:
        """``threads`` for updates are 1 or 2, by default whichever is faster; the result is the same to the bit.

        Every ``sde_sample_freq`` steps, the matrices of state-dependent noise are redrawn; −1: once per rollout.
        With ``reduce``, gradients of several processes are summed in each minibatch.
        """
        if (obstacle := fused_obstacle(policy)) is not None:
            raise ValueError(f"the fused backend cannot run this policy: {obstacle}")
        if flat.optimizer is not policy.optimizer or not flat.is_current():
            raise ValueError("the policy's parameters have left their flat memory; build FlatParameters again")
        # imported here: it loads numba, and compiles on the first use on a machine
        from proximo.backends.fused import kernels

        compiled_scan()  # so that nothing is left to compile in the middle of a run
        self.policy, self.flat, self.generator = policy, flat, generator
        self._kernels = kernels
        self._step = GradientStep(flat, policy.optimizer, reduce)
        self._plan = PolicyPlan(policy, flat)
        self._update = UpdatePlan(policy, flat)
        self._encode = feature_encoder(policy.observation_space)
        self._noise = policy.action_dist if isinstance(policy.action_dist, StateDependentNoiseDistribution) else None
        self._redraw_every = max(sde_sample_freq, 0) if self._noise else 0
        self._action_dtype = stored_action_dtype(policy.action_space)
        self._env_dtype = np.dtype(policy.action_space.dtype)
        self._action_size = get_action_dim(policy.action_space)
        self._action_shape = policy.action_space.shape or ()
        self._seen_log_std = self._found_deviations = np.empty(0, np.float32)
        self._samples = 0
        self._share: Share | None = None  # which of all processes' environments it acts in
        self._few_from = 0
        self._threads = RoleThreads(threads)
        self._update.bind("barrier", self._threads.barrier)
        self._as_bound = changeable(policy)
        self._make_target(0, 0)

    def is_current(self) -> bool:
        """Whether the policy is still what the kernels were bound to."""
        return self.flat.is_current() and changeable(self.policy) == self._as_bound

    def start_rollout(self, steps: int, environments: int, share: Share | None = None) -> None:
        """Draw the random numbers of a whole rollout."""
        self._share, self._few_from = share, first_of_few(environments, share)
        if (self._target.steps, self._target.environments) != (steps, environments):
            self._make_target(steps, environments)
        self._draw(self._target)
        if self._noise is not None:
            self._show_matrices(self._noise)

    def _show_matrices(self, noise: StateDependentNoiseDistribution) -> None:
        """Let ``predict()`` explore as the rollout does: the distribution's matrices are views of the kernels' own."""
        matrices = torch.from_numpy(self._target.matrices)[..., : noise.latent_sde_dim].transpose(1, 2)
        noise.exploration_matrices, noise.exploration_mat = matrices, matrices[0]

    def _draw(self, target: ActionTarget) -> None:
        if self._noise is None:
            draw_noise(target.noise, self.policy.action_dist.noise_kinds, self.generator, self._share)
        else:
            target.draw_matrices(self._deviations(self._noise), self.generator, self._share)

    def _deviations(self, noise: StateDependentNoiseDistribution) -> Array:
        """Of the noise matrices, [action, latent]; computed when log σ has changed, not at every redraw.

        PyTorch may run its exponential in several threads, which stay awake and take the workers' cores for a while.
        """
        log_std = self.policy.log_std.detach()
        if not np.array_equal(log_std.numpy(), self._seen_log_std):
            self._seen_log_std = log_std.numpy().copy()
            self._found_deviations = np.ascontiguousarray(noise.get_std(log_std).numpy().T)
        return self._found_deviations

    def _new_target(self, steps: int, environments: int) -> ActionTarget:
        latents = None if self._noise is None else self._noise.latent_sde_dim
        return ActionTarget(steps, environments, self._action_size, self._action_dtype, latents)

    def _make_target(self, steps: int, environments: int) -> None:
        self._target = self._new_target(steps, environments)
        self._env_actions = self._target.env_actions.reshape(steps, environments, *self._action_shape)
        self._shape = (environments, self._plan.features)
        self._bound: tuple[Array, Array, Array, Array | None] | None = None

    def act(self, observations: Observation, rollout: Rollout, step: int) -> Array:
        """Sample actions for [env, …] observations into row ``step`` of actions, values and log-probabilities.

        Row ``step`` of ``rollout.action_masks``, if there are any, says which actions are allowed. Returns the actions
        as the environment takes them, [env, …].
        """
        features = self._encode(observations)  # type: ignore[arg-type]
        if features.shape != self._shape or not 0 <= step < self._target.steps:
            raise ValueError(
                f"observations give {features.shape} features at step {step}; expected {self._shape} and a step "
                f"within {self._target.steps}: call start_rollout(steps, environments) first"
            )
        bound = self._bound
        if bound is None or not (
            rollout.actions is bound[0]
            and rollout.values is bound[1]
            and rollout.log_probs is bound[2]
            and rollout.action_masks is bound[3]
        ):
            self._bind(rollout)
        if self._redraw_every and step and step % self._redraw_every == 0:
            self._draw(self._target)
        if not self._kernels.act(self._plan.address, self._target.address, features, step, self._few_from):
            check_finite_row("observation", observations, step)
        return self._env_actions[step].astype(self._env_dtype)  # a copy: an environment may keep its action

    def _bind(self, rollout: Rollout) -> None:
        """Take the addresses of a rollout's arrays; kernels check nothing, so their shapes are checked here."""
        self._bound = None  # what is refused below must not leave half of its addresses in use
        shape = (self._target.steps, self._target.environments)
        expected = {
            "actions": ((*shape, self._action_size), self._action_dtype),
            "values": (shape, np.dtype(np.float32)),
            "log_probs": (shape, np.dtype(np.float32)),
        }
        for name, (wanted_shape, dtype) in expected.items():
            array = getattr(rollout, name)
            if array.shape != wanted_shape or array.dtype != dtype:
                raise ValueError(
                    f"rollout.{name} is {array.dtype} {array.shape}, expected {dtype} {wanted_shape}; "
                    "start_rollout and the rollout must agree on steps and environments"
                )
            self._target.bind(name, array)
        self._bind_masks(self._target, rollout.action_masks, shape)
        self._bound = (rollout.actions, rollout.values, rollout.log_probs, rollout.action_masks)

    def _bind_masks(self, structure: Structure, masks: Array | None, leading: tuple[int, int]) -> None:
        if masks is None:
            structure.unbind("masks")
            return
        width = self.policy.action_dist.mask_width
        if width == 0:
            raise ValueError(f"rollout.action_masks: {self.policy.action_space} has no discrete choices to mask")
        if masks.shape != (*leading, width) or masks.dtype != np.bool_:
            raise ValueError(
                f"rollout.action_masks is {masks.dtype} {masks.shape}, expected bool {(*leading, width)}: an entry for "
                f"each choice of {self.policy.action_space}, at each step of each environment"
            )
        self._plan.expect_masks()
        structure.bind("masks", masks)

    def values(
        self,
        observations: Observation,
        environments: NDArray[np.int64] | None = None,
        episode_starts: Array | None = None,
        share: Share | None = None,
    ) -> Array:
        """V for [batch, …] observations: [batch] float32."""
        features = self._checked_features(observations)
        values = np.empty(len(features), np.float32)
        self._kernels.predict_values(self._plan.address, features, values, first_of_few(len(values), share))
        return values

    def _checked_features(self, observations: Observation) -> Array:
        features = self._encode(observations)  # type: ignore[arg-type]
        if features.shape[1:] != (self._plan.features,):
            raise ValueError(f"observations give {features.shape[1]} features, the policy reads {self._plan.features}")
        return features

    def update(
        self, buffer: RolloutBuffer, orders: NDArray[np.int64], settings: UpdateSettings, loss: Loss
    ) -> UpdateReport:
        """All epochs in one call; the loss is the kernels' own, PPO's."""
        self.start_update(buffer.rollout)
        rows, status = self.ppo_epochs(orders, settings)  # one call: the second thread wakes once
        if status.non_finite:
            raise non_finite_update(status.minibatch)
        return UpdateReport(split_epochs(rows, -(-orders.shape[1] // settings.batch_size)))

    def start_update(self, rollout: Rollout) -> None:
        """Bind the samples of a full rollout; the epochs that follow read them."""
        samples, observations = rollout.steps * rollout.environments, rollout.observations
        features = self._checked_features(observations.reshape(samples, *observations.shape[2:]))  # type: ignore[union-attr]
        self._update.bind("features", features)
        self._update.bind("actions", rollout.actions.reshape(samples, self._action_size).astype(np.float32))
        for name in ("log_probs", "values", "advantages", "returns"):
            self._update.bind(name, np.ascontiguousarray(getattr(rollout, name), np.float32).reshape(samples))
        self._bind_masks(self._update, rollout.action_masks, (rollout.steps, rollout.environments))
        self._samples = samples

    def ppo_epochs(
        self, orders: NDArray[np.int64], settings: UpdateSettings
    ) -> tuple[NDArray[np.float64], EpochStatus]:
        """Gradient steps over minibatches of the rollout given to :meth:`start_update`.

        Each row of ``orders`` [epoch, sample] says in which order the samples come.

        The short last minibatch of an epoch is kept. Returns a row of terms [policy loss, value loss, entropy loss,
        approximate KL, clip fraction, loss] for each minibatch (without the one that was not finite, with the one whose
        KL was too large), and how the epochs ended. With ``skip_non_finite`` the row of a minibatch that was skipped
        has NaN for its loss.
        """
        orders = np.ascontiguousarray(orders, np.int64)
        self._check_orders(orders, settings.batch_size)
        self._update.read_optimizer()
        self._update.set(
            objective=objective_of(settings),
            clip_range_vf=-1.0 if settings.clip_range_vf is None else settings.clip_range_vf,
            target_kl=math.inf if settings.target_kl is None else settings.target_kl,
            **{name: getattr(settings, name) for name in SAME_IN_RECORD},
        )
        rows = self._update.start(orders, settings.batch_size)
        if self._step.reduce is None:
            code, count = self._threads.run(partial(self._kernels.update, self._plan.address, self._update.address))
        else:
            code, count = self._epochs_in_halves(len(rows), settings.skip_non_finite)
        status = EpochStatus(Status(code), count)
        return (rows[: count + 1] if status.stopped else rows[:count]), status

    def _epochs_in_halves(self, minibatches: int, skip_non_finite: bool) -> tuple[int, int]:
        """The same with two calls per minibatch, gradient and apply, between which processes sum their gradients."""
        for index in range(minibatches):
            self._step.gradient(partial(self._kernels.gradient, self._plan.address, self._update.address, index))
            status = self._kernels.apply(self._update.address, index)
            if status != Status.DONE and not (status == Status.NON_FINITE and skip_non_finite):
                return status, index
        return Status.DONE, minibatches

    def _check_orders(self, orders: NDArray[np.int64], batch_size: int) -> None:
        if orders.size == 0 or orders.min() < 0 or orders.max() >= self._samples or batch_size < 1:
            raise ValueError(
                f"orders of shape {orders.shape} in minibatches of {batch_size} do not fit the {self._samples} samples "
                "of the rollout; call start_update(rollout) before its epochs"
            )
