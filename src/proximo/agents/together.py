"""The side of an agent that knows of other processes, which train together with this one."""

from __future__ import annotations

import zlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, TypeAlias

import torch

from proximo.agents.attributes import AgentAttributes
from proximo.distributed import join
from proximo.envs import VecEnv
from proximo.envs.vector.normalize import normalizers
from proximo.rollout.exchange import RolloutExchange
from proximo.rollout.storage import RolloutBuffer, is_stock

Distributed: TypeAlias = bool | Literal["gathered", "sharded"]


class TogetherSide(AgentAttributes):
    """Joins the processes that ``torchrun`` started, and decides how they learn together."""

    # methods of the agent
    collect_rollouts: Any
    train: Any
    _make_buffer: Any
    _allocate_own_stream: Any

    def _joined(self, env: VecEnv) -> RolloutExchange | None:
        """Join the other processes of the training, if there are some; they have the rest of the environments."""
        self.runtime.group = join() if self.distributed else None
        if self.runtime.group is None:
            return None
        return RolloutExchange(self.runtime.group, self.runtime.group.shares(env.num_envs, "making a model"))

    @property
    def rank(self) -> int:
        """The place of this process among those that train together; 0 for one alone."""
        return 0 if self.runtime.group is None else self.runtime.group.rank

    @property
    def world_size(self) -> int:
        """How many processes train together; 1 for one alone."""
        return 1 if self.runtime.group is None else self.runtime.group.world_size

    @property
    def _exchange(self) -> RolloutExchange | None:
        return None if self._collector is None else self._collector.exchange

    def _start_alike(self, exchange: RolloutExchange) -> None:
        """Give all processes rank 0's network, if theirs came out otherwise."""
        group, weights = exchange.group, self.runtime.flat.data
        digests = group.gather((weights.numel(), self._checksum()), "making a model")
        if any(digest[0] != digests[0][0] for digest in digests):
            raise ValueError(f"the processes have networks of different sizes: {[digest[0] for digest in digests]}")
        if any(digest != digests[0] for digest in digests):
            weights.copy_(torch.from_numpy(group.first(weights.cpu().numpy(), "making a model")))

    def _checksum(self) -> int:
        """Of all weights; tells processes whose weights differ."""
        return zlib.crc32(self.runtime.flat.data.cpu().numpy().data)

    def _distribute(self, exchange: RolloutExchange) -> None:
        """Decide how the processes learn together, and make the buffers for it."""
        if not type(self).collect_rollouts.__module__.startswith("proximo."):
            raise ValueError(
                f"{type(self).__name__} overrides collect_rollouts, which knows nothing of other processes; train it "
                "in one process, or with distributed=False"
            )
        sharded = self._is_sharded()
        self.runtime.reduce = exchange.group.sum if sharded else None
        exchange.checksum = None if sharded else self._checksum
        self.runtime.bind()
        self.rollout_buffer = self._make_buffer(exchange.share.count if sharded else self.n_envs)
        self._own_buffer = None if sharded else self._make_buffer(exchange.share.count, RolloutBuffer)
        for buffer in (self.rollout_buffer, self._own_buffer):
            if buffer is not None:
                self._allocate_own_stream(buffer)

    def _is_sharded(self) -> bool:
        """Whether each process learns from its own rows; else each has all of them, and all do the same."""
        obstacle = self._sharding_obstacle()
        if self.distributed == "sharded" and obstacle is not None:
            raise ValueError(f"the processes cannot learn each from its own rows: {obstacle}; use distributed=True")
        return self.distributed != "gathered" and obstacle is None

    def _sharding_obstacle(self) -> str | None:
        if self.runtime.description == "fused":
            return "the fused backend learns from all rows (backend='torch' does not)"
        if not is_stock(self.rollout_buffer):
            return f"rollout buffer is {type(self.rollout_buffer).__name__}"
        if self.intrinsic_reward is not None:
            return "the intrinsic reward learns from all rows"
        if self.augmentation is not None:
            return "augmentations are drawn for all rows"
        if not type(self).train.__module__.startswith("proximo."):
            return f"{type(self).__name__} overrides train"
        return None

    def highest_of_all(self, *numbers: float) -> list[float]:
        """The highest of each number over the processes that train together, all of which must ask."""
        group = self.runtime.group
        return [*numbers] if group is None else group.highest(numbers, "a decision between iterations")

    def _telling_failures(self) -> AbstractContextManager[None]:
        return nullcontext() if self.runtime.group is None else self.runtime.group.telling_failures()


def share_statistics(env: VecEnv, exchange: RolloutExchange) -> None:
    """Let every ``VecNormalize`` around the environments learn from those of all processes."""
    for normalizer in normalizers(env):
        normalizer.share_with(exchange.group, exchange.shares)
