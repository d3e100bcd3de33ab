"""Algorithms of the library that train somebody else's network and storage, in somebody else's way.

An agent of another library's shape (rllte's agents, Hsuanwu's trainer) is the *host*: it makes the network and the
storage, and says how one update goes. Loop, collector, callbacks, logs, checkpoints and files are the library's.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

from proximo.agents import daac, ppg, ppo
from proximo.agents.on_policy import OnPolicyAlgorithm
from proximo.config import OnPolicyConfig
from proximo.data import Metrics
from proximo.distributed import launch_of
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.persistence import model_files
from proximo.rollout.storage import RolloutBuffer, is_stock
from proximo.rollout.tensor_storage import VanillaRolloutStorage


class Host(Protocol):
    """Who owns network and storage."""

    storage: Any  # a VanillaRolloutStorage

    def train_on_rollout(self) -> Metrics | None:
        """Update the network from the full storage; metrics under the host's own names."""

    def fusing_obstacle(self) -> str | None:
        """What of the host keeps the kernels from running the network; None if nothing does."""

    def optimizers(self) -> Mapping[str, torch.optim.Optimizer]:
        """All optimisers of the network; the policy's own may be among them."""


class Hosted(OnPolicyAlgorithm):
    """What a hosted algorithm does otherwise: network, storage and update are the host's."""

    def __init__(
        self,
        host: Host,
        network: ActorCriticPolicy,
        env: Any,
        config: OnPolicyConfig,
        *,
        policy_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if (launch := launch_of(os.environ)) is not None:
            raise ValueError(
                f"{type(host).__name__} trains in one process, but {launch.world_size} were started to train together; "
                "start one, or use proximo.PPO, PPG or DAAC, which join them"
            )
        self._host, self._network = host, network
        self.log_every = 1  # updates
        self.after_log: Callable[[], None] | None = None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="batch_size .* does not divide")  # the host has said so
            OnPolicyAlgorithm.__init__(
                self, type(network), env, config, policy_kwargs=policy_kwargs, distributed=False, **options
            )

    def _make_policy(self) -> ActorCriticPolicy:
        return self._network

    def _make_buffer(
        self, environments: int | None = None, buffer_class: type[RolloutBuffer] | None = None
    ) -> RolloutBuffer:
        buffer: RolloutBuffer = self._host.storage.buffer
        return buffer

    def _fusing_obstacle(self) -> str | None:
        return self._host.fusing_obstacle() or super()._fusing_obstacle()

    def train(self) -> None:
        """Let the host update its network; its metrics are logged under its names."""
        storage: VanillaRolloutStorage = self._host.storage
        storage.store_next_observations(self._required_collector().current_observations())
        if is_stock(storage.buffer):
            storage.normalize_advantages()
        self._n_updates += 1
        for name, value in (self._host.train_on_rollout() or {}).items():
            self.logger.record(name, value)
        storage.update()

    def dump_logs(self, iteration: int = 0) -> None:
        """Write the log after the first update, and after every ``log_every`` more."""
        if (iteration - 1) % self.log_every == 0 or self.num_timesteps >= self._total_timesteps:
            super().dump_logs(iteration)
            if self.after_log is not None:
                self.after_log()

    def _own_tensors(self) -> dict[str, torch.Tensor]:
        tensors = super()._own_tensors()
        for name, optimizer in self._other_optimizers().items():
            state = model_files.flatten_state(optimizer.state_dict()["state"])
            tensors |= {f"optimizers.{name}.{key}": value for key, value in state.items()}
        return tensors

    def _load_own_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        for name, optimizer in self._other_optimizers().items():
            prefix = f"optimizers.{name}."
            flat = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": model_files.unflatten_state(flat), "param_groups": groups})
        super()._load_own_tensors({k: v for k, v in tensors.items() if not k.startswith("optimizers.")})

    def _other_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        optimizers = self._host.optimizers().items()
        return {name: optimizer for name, optimizer in optimizers if optimizer is not self.policy.optimizer}


# their names are those that files are read by


class PPO(Hosted, ppo.PPO):
    """PPO for a host."""


class PPG(Hosted, ppg.PPG):
    """PPG for a host."""


class DAAC(Hosted, daac.DAAC):
    """DAAC for a host."""
