"""The rollouts of processes that train together: what they agree on, and how all of them come to hold all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from proximo.data import Array, Info, Observation, RNNStates, Rollout, Share, map_observation, observation_parts
from proximo.distributed import Group
from proximo.errors import DistributedError

WHAT = "the end of the rollout"


class EpisodeEnd(NamedTuple):
    """An episode that ended in a rollout: where, and what its info said."""

    step: int
    environment: int  # of all
    episode: Info | None
    success: Any


class Summary(NamedTuple):
    """What a process tells the others of its rollout, beside the rows themselves."""

    stopped_at: int | None  # step after which a callback asked for the end of the training
    has_valid: bool
    truncated: dict[int, int]  # step → environments whose episode a time limit cut there
    ends: list[EpisodeEnd]
    weights: int | None = None  # a checksum of those that acted, where all processes must have the same


class RolloutExchange:
    """Knows which environments are whose; every method is one that all processes must call."""

    def __init__(self, group: Group, shares: Sequence[Share]) -> None:
        self.group, self.shares = group, shares
        self.share = shares[group.rank]
        self.summaries: list[Summary] = []
        self.checksum: Callable[[], int] | None = None  # of the weights, where every process makes the same update

    def summarize(self, own: Summary) -> Summary:
        """All processes' summaries as one: what a single process with all environments would have seen."""
        if self.checksum is not None:
            own = own._replace(weights=self.checksum())
        self.summaries = self.group.gather(own, WHAT)
        self._check_weights([summary.weights for summary in self.summaries])
        stops = [summary.stopped_at for summary in self.summaries if summary.stopped_at is not None]
        stopped_at = min(stops, default=None)
        ends = sorted(
            (end for summary in self.summaries for end in summary.ends if stopped_at is None or end.step < stopped_at),
            key=lambda end: (end.step, end.environment),
        )
        return Summary(stopped_at, any(summary.has_valid for summary in self.summaries), {}, ends)

    @staticmethod
    def _check_weights(checksums: Sequence[int | None]) -> None:
        """Raise in all processes alike where the weights of some are no longer those of the others."""
        if len(set(checksums)) == 1:
            return
        alike = [
            ", ".join(str(rank) for rank, other in enumerate(checksums) if other == checksum)
            for checksum in dict.fromkeys(checksums)
        ]
        raise DistributedError(
            f"the weights of the processes have come apart: ranks {' | '.join(alike)} agree among themselves, and not "
            "with the others. All make the same update from the same rows, so their processors round differently "
            "(other CPUs, or other versions of packages), or a callback changed the weights in some of them only. "
            "Train on machines of one kind, or with backend='torch', where gradients are summed instead"
        )

    def share_of_truncated(self, step: int) -> Share:
        """Which of all episodes that a time limit cut in a step are this process's."""
        counts = [summary.truncated.get(step, 0) for summary in self.summaries]
        rank = self.group.rank
        return Share(sum(counts[:rank]), counts[rank], sum(counts))

    def gather_rollout(self, own: Rollout, whole: Rollout, has_valid: bool) -> None:
        """Bring the rows of all processes into ``whole``, by their environments."""
        names = ("actions", "rewards", "values", "log_probs", "episode_starts", "terminated", "truncated")
        pairs = [(getattr(own, name), getattr(whole, name), 1) for name in (*names, "bootstrap_values")]
        parts = zip(observation_parts(own.observations), observation_parts(whole.observations), strict=True)
        pairs += [(part, target, 1) for part, target in parts]
        pairs.append((own.last_values, whole.last_values, 0))
        if own.own_stream is not None and whole.own_stream is not None:
            pairs.append((own.own_stream.values, whole.own_stream.values, 1))
            pairs.append((own.own_stream.last_values, whole.own_stream.last_values, 0))
        if has_valid:
            valid = np.ones(own.rewards.shape, np.bool_) if own.valid is None else own.valid
            whole.valid = np.empty(whole.rewards.shape, np.bool_)
            pairs.append((valid, whole.valid, 1))
        if own.action_masks is not None:
            whole.action_masks = np.empty((*whole.rewards.shape, own.action_masks.shape[-1]), np.bool_)
            pairs.append((own.action_masks, whole.action_masks, 1))
        states = [] if own.states is None else [part.cpu().numpy() for part in own.states.parts()]
        targets = [np.empty((*part.shape[:2], self.share.total, part.shape[3]), part.dtype) for part in states]
        self._gather(pairs + [(part, target, 2) for part, target in zip(states, targets, strict=True)])
        if own.states is not None:
            device = own.states.parts()[0].device
            tensors = [torch.from_numpy(target).to(device) for target in targets]
            memory = len(own.states.pi)
            whole.states = RNNStates(tuple(tensors[:memory]), tuple(tensors[memory:]))
        whole.sequence_length = own.sequence_length

    def share_valid(self, rollout: Rollout, may_be_new: bool) -> None:
        """Tell all which rows train, where each process learns from its own; nothing is sent where all rows do."""
        rollout.valid_of_all = None
        if may_be_new or any(summary.has_valid for summary in self.summaries):
            valid = np.ones(rollout.rewards.shape, np.bool_) if rollout.valid is None else rollout.valid
            rollout.valid_of_all = self.gather_columns(valid)

    def gather_rows(self, own: Observation) -> Observation:
        """All processes' [env, …] rows."""
        whole: Observation = map_observation(partial(self._of_all, axis=0), own)
        parts = zip(observation_parts(own), observation_parts(whole), strict=True)
        self._gather([(part, target, 0) for part, target in parts])
        return whole

    def gather_columns(self, own: Array) -> Array:
        """All processes' [time, env, …] columns."""
        whole = self._of_all(own, 1)
        self._gather([(own, whole, 1)])
        return whole

    def _of_all(self, own: Array, axis: int) -> Array:
        return np.empty((*own.shape[:axis], self.share.total, *own.shape[axis + 1 :]), own.dtype)

    def _gather(self, pairs: Sequence[tuple[Array, Array, int]]) -> None:
        self.group.gather_rows(pairs, self.shares, WHAT)
