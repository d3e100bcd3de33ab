"""The reference backend: any policy module, any device, through PyTorch's autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from proximo.data import Array, Observation, RNNStates, Rollout
from proximo.errors import NonFiniteError
from proximo.functional.spaces import obs_as_tensor
from proximo.functional.statistics import check_finite_row
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.flat_parameters import FlatParameters, fused_by_default
from proximo.networks.recurrent import RecurrentActorCriticPolicy


class TorchBackend:
    """Acts and steps with plain PyTorch over flat memory: one gradient norm, one optimiser call."""

    def __init__(self, policy: ActorCriticPolicy, flat: FlatParameters, reason: str, sde_sample_freq: int = -1) -> None:
        self.policy = policy
        self.flat = flat
        self.description = f"torch: {reason}"
        for group in policy.optimizer.param_groups:
            if fused_by_default(policy.optimizer, group):
                group["fused"] = True  # one pass over parameters and moments instead of seven
        self.sde_sample_freq = sde_sample_freq  # steps between new noise matrices; −1: one set per rollout
        self.states: RNNStates | None = None  # what a policy with memory remembers of the current episodes

    def is_current(self) -> bool:
        """Whether the policy's parameters are still where they were bound."""
        return self.flat.is_current()

    def start_rollout(self, steps: int, environments: int) -> None:
        self.policy.set_training_mode(False)
        if self.policy.use_sde:
            self.policy.reset_noise(environments)
        if isinstance(self.policy, RecurrentActorCriticPolicy):
            empty = self.policy.initial_states(environments)
            if self.states is None or self.states.shapes() != empty.shapes():  # the first rollout, or another network
                self.states = empty

    @torch.no_grad()
    def act(self, observations: Observation, rollout: Rollout, step: int) -> Array:
        """Sample actions for [env, …] observations into row ``step``; returns them as the environment takes them."""
        # sampling from NaN logits would fail with torch's words, which name neither step nor environment
        check_finite_row("observation", observations, step)
        if self.policy.use_sde and self.sde_sample_freq > 0 and step % self.sde_sample_freq == 0:
            self.policy.reset_noise(rollout.environments)
        tensors, options = obs_as_tensor(observations, self.policy.device), {}
        if rollout.action_masks is not None:
            options["action_masks"] = torch.as_tensor(rollout.action_masks[step], device=self.policy.device)
        if self.states is None:
            actions, values, log_probs = self.policy(tensors, **options)
        else:
            self._keep_states(self.states, rollout, step)
            starts = torch.as_tensor(rollout.episode_starts[step], dtype=torch.float32, device=self.policy.device)
            actions, values, log_probs, self.states = self.policy(tensors, self.states, starts, **options)
        rollout.values[step] = values.flatten().cpu().numpy()
        rollout.log_probs[step] = log_probs.cpu().numpy()
        chosen = actions.cpu().numpy()
        rollout.actions[step] = chosen.reshape(rollout.actions.shape[1:])
        return self.policy.bound_actions(chosen)

    @staticmethod
    def _keep_states(states: RNNStates, rollout: Rollout, step: int) -> None:
        """Store what is remembered where a training sequence begins."""
        if step == 0:
            sequences = -(-rollout.steps // rollout.sequence_length)
            rollout.states = states.map(lambda part: torch.zeros(sequences, *part.shape))
        if step % rollout.sequence_length == 0 and rollout.states is not None:
            for memory, part in zip(rollout.states.parts(), states.parts(), strict=True):
                memory[step // rollout.sequence_length] = part

    @torch.no_grad()
    def values(
        self, observations: Observation, environment: int | None = None, episode_starts: Array | None = None
    ) -> Array:
        """V for [batch, …] observations: [batch] float32."""
        tensors = obs_as_tensor(observations, self.policy.device)
        if self.states is None:
            values = self.policy.predict_values(tensors)
        else:
            which = slice(None) if environment is None else slice(environment, environment + 1)
            memory = tuple(part[:, which] for part in self.states.vf)
            starts = torch.zeros(1) if episode_starts is None else torch.from_numpy(episode_starts)
            values = self.policy.predict_values(tensors, memory, starts.float().to(self.policy.device))  # type: ignore[call-arg]
        return values.flatten().cpu().numpy()

    def descend(self, loss: Tensor, max_grad_norm: float) -> None:
        """One step against the gradient of ``loss``, its norm cut to ``max_grad_norm``; nothing on a non-finite one."""
        self.flat.bind_gradients()
        self.flat.zero_gradients()
        loss.backward()
        norm = self.flat.gradient_norm()
        if not torch.isfinite(norm):
            raise NonFiniteError(f"the gradient norm is {float(norm)} (loss {float(loss.detach())})")
        self.flat.gradients.mul_(torch.clamp(max_grad_norm / (norm + 1e-6), max=1.0))
        self.policy.optimizer.step()
