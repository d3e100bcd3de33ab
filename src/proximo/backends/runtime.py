"""The owner of a network: policy, flat memory, backend, recurrent memory, random generator, rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch

from proximo.backends.base import Backend, BackendChoice, Precision
from proximo.backends.fused import FusedBackend, fused_obstacle, settings_obstacle
from proximo.backends.gradient_step import GradientStep, Reduce
from proximo.backends.threads import multiplications_per_row, torch_threads
from proximo.backends.torch_backend import TorchBackend, autocast
from proximo.config import OnPolicyConfig
from proximo.data import RNNStates
from proximo.distributed import Group
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.flat_parameters import FlatParameters, fused_by_default


def no_obstacle() -> str | None:
    """For a runtime that nothing keeps from the kernels."""
    return None


def no_settings() -> OnPolicyConfig | None:
    """For a runtime whose hyperparameters the kernels need not know."""
    return None


class Runtime:
    """Holds a policy, moves its parameters into flat memory and chooses who runs them; nobody else binds anything.

    ``obstacle`` says, in words, what besides the policy keeps the kernels from running it (a user's loss, a user's
    buffer); it is asked again before each use, as is the policy whether anything of it was replaced, moved or loaded.
    ``settings`` gives the hyperparameters, which the kernels must know.
    """

    def __init__(
        self,
        generator: np.random.Generator,
        choice: BackendChoice = "auto",
        *,
        obstacle: Callable[[], str | None] = no_obstacle,
        settings: Callable[[], OnPolicyConfig | None] = no_settings,
        sde_sample_freq: int = -1,
        precision: Precision = "float32",
        reduce: Reduce | None = None,
    ) -> None:
        """Arguments:
        generator: What noise and minibatches are drawn from.
        choice: Who shall run the policy: auto, fused or torch.
        obstacle: Says, in words, what besides the policy keeps the kernels from running it; None if nothing does.
        settings: Gives the hyperparameters of this moment, which the kernels must know.
        sde_sample_freq: Steps between new noise matrices of gSDE; -1 draws them once per rollout.
        precision: float32, or bf16 for autocast on the torch backend.
        reduce: Sums an array over the processes that train together; None where there is one.
        """
        if choice not in ("auto", "fused", "torch"):
            raise ValueError(f"backend is {choice!r}; expected 'auto', 'fused' or 'torch'")
        if precision not in ("float32", "bf16"):
            raise ValueError(f"precision is {precision!r}; expected 'float32' or 'bf16'")
        self.generator = generator  # draws exploration noise and minibatches
        self.choice = choice
        self.sde_sample_freq = sde_sample_freq
        self.precision = precision
        self.reduce = reduce
        self.group: Group | None = None  # the processes that train together, this one among them
        self._obstacle, self._settings = obstacle, settings
        self._policy: ActorCriticPolicy | None = None
        self._backend: Backend | None = None
        self._copied_states: RNNStates | None = None  # of the runtime that this one is a copy of
        self._bound_obstacle: str | None = None
        self._asked_settings: OnPolicyConfig | None = None
        self._obstacle_of_settings: str | None = None
        self._held = False
        self._multiplications = 0.0  # of the policy for one row, roughly
        self._is_on_cpu = False

    def __getstate__(self) -> dict[str, Any]:
        """For copies: without the backend, whose kernels and threads belong to this memory; a copy binds again."""
        return {**vars(self), "_backend": None, "_copied_states": self.states, "_held": False}

    @property
    def policy(self) -> ActorCriticPolicy:
        """The policy that is held."""
        if self._policy is None:
            raise AttributeError("there is no policy yet: the model was made with _init_setup_model=False")
        return self._policy

    @policy.setter
    def policy(self, policy: ActorCriticPolicy) -> None:
        self._policy = policy

    @property
    def backend(self) -> Backend:
        """Who runs the policy; bound again when the policy, a part of it, its optimiser or the obstacle has changed."""
        if self._backend is None or not (self._held or self._is_current(self._backend)):
            return self.bind()
        return self._backend

    @contextmanager
    def held(self) -> Iterator[Backend]:
        """The backend for a whole rollout: whatever a callback moves meanwhile, nothing is bound before its end."""
        backend = self.backend
        self._held = True
        try:
            yield backend
        finally:
            self._held = False

    def use_threads(self, rows: int, leave_cores: bool = False) -> None:
        """Choose PyTorch's threads for what follows, calls with so many rows; where workers need the cores, one."""
        if self._is_on_cpu:
            torch_threads.use(rows * self._multiplications, leave_cores)

    def bring_back_optimizer(self) -> None:
        """After ``optimizer.load_state_dict``: its state back into the flat memory, which stays where it is."""
        if self._backend is not None and self._holds_policy(self._backend.flat):
            self._backend.flat.rebind()

    def _is_current(self, backend: Backend) -> bool:
        same = self._holds_policy(backend.flat) and backend.generator is self.generator
        return same and backend.is_current() and self._own_obstacle() == self._bound_obstacle

    def _holds_policy(self, flat: FlatParameters) -> bool:
        return flat.module is self.policy and flat.optimizer is self.policy.optimizer

    def _own_obstacle(self) -> str | None:
        if self.choice == "torch":
            return "asked for"
        if self.precision != "float32":
            return f"precision is {self.precision}"
        return self._obstacle() or self._settings_obstacle()

    def _settings_obstacle(self) -> str | None:
        """Asked twice per iteration; the same object holds the same hyperparameters."""
        settings = self._settings()
        if settings is not self._asked_settings:
            self._asked_settings = settings
            self._obstacle_of_settings = None if settings is None else settings_obstacle(settings)
        return self._obstacle_of_settings

    def bind(self) -> Backend:
        """Move the parameters into flat memory and choose a backend: the fastest that can, or the one asked for."""
        policy, previous = self.policy, self._backend
        self._bound_obstacle = self._own_obstacle()
        self._multiplications, self._is_on_cpu = multiplications_per_row(policy), policy.device.type == "cpu"
        obstacle = self._bound_obstacle or fused_obstacle(policy)
        if obstacle is not None and self.choice == "fused":
            raise ValueError(f"the fused backend cannot run this policy: {obstacle}; use backend='auto' or 'torch'")
        if obstacle is None:
            flat = FlatParameters(policy, policy.optimizer)
            self._backend = FusedBackend(
                policy, flat, self.generator, sde_sample_freq=self.sde_sample_freq, reduce=self.reduce
            )
        else:
            step_in_one_pass(policy.optimizer)
            self._backend = TorchBackend(
                policy,
                FlatParameters(policy, policy.optimizer),
                self.generator,
                obstacle,
                sde_sample_freq=self.sde_sample_freq,
                precision=self.precision,
                reduce=self.reduce,
            )
        states = self._copied_states if previous is None else previous.states
        if states is not None and policy.recurrent:
            # what a policy with memory remembers outlives a new binding
            self._backend.states = states.map(lambda part: part.to(policy.device))
        return self._backend

    @property
    def description(self) -> str:
        """Which backend runs the policy, and why: ``"fused"`` or ``"torch: features extractor is NatureCNN"``."""
        return self.backend.description

    @property
    def flat(self) -> FlatParameters:
        """Its parameters, gradients and moments in flat memory."""
        return self.backend.flat

    @property
    def states(self) -> RNNStates | None:
        """What a policy with memory remembers of the current episodes."""
        return self._copied_states if self._backend is None else self._backend.states

    @states.setter
    def states(self, states: RNNStates | None) -> None:
        self.backend.states = states

    def gradient_step(self, optimizer: torch.optim.Optimizer | None = None) -> GradientStep:
        """A gradient step over the flat memory, with the policy's optimiser or another one of the same memory."""
        return GradientStep(self.flat, optimizer or self.policy.optimizer, self.reduce)

    def autocast(self) -> AbstractContextManager[object]:
        """The precision in which a learner with steps of its own computes its losses."""
        return autocast(self.precision, self.policy.device)


def step_in_one_pass(optimizer: torch.optim.Optimizer) -> None:
    """Let Adam make one pass over parameters and moments instead of seven, unless the user has chosen."""
    for group in optimizer.param_groups:
        if fused_by_default(optimizer, group):
            group["fused"] = True
