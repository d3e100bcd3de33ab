"""What phasic policy gradient keeps of the rollouts of a whole phase, in memory that is allocated once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from proximo.data import (
    Array,
    Observation,
    Rollout,
    Share,
    TensorObservation,
    map_observation,
    observation_parts,
    write_observation,
)
from proximo.errors import NotEnoughMemoryError
from proximo.functional.spaces import Space
from proximo.rollout.available_memory import available_memory
from proximo.rollout.minibatches import flat_observations, take_observations
from proximo.rollout.sharding import own_indices
from proximo.rollout.storage import allocate_observations


class PhaseBatch(NamedTuple):
    """Samples of a phase on the learner's device."""

    rows: torch.Tensor  # [batch]: their places in the buffer
    observations: TensorObservation  # [batch, …]
    returns: torch.Tensor  # [batch]
    action_masks: torch.Tensor | None  # [batch, mask]


class PhaseBuffer:
    """Observations, returns and masks of ``rollouts`` rollouts; observations keep their number type, images bytes.

    The memory is one long rollout, [time of all rollouts, env, …]; a sample's row is ``time * environments + env``.
    """

    returns: Array  # [time, env]
    valid: Array  # [time, env] bool: rows that train
    observations: Observation  # [time, env, …]
    action_masks: Array | None  # [time, env, mask]

    def __init__(
        self,
        rollouts: int,
        steps: int,
        environments: int,
        observation_space: Space,
        mask_width: int = 0,
        share: Share | None = None,
    ) -> None:
        """``share`` says which of all ``environments`` are here, where processes learn each from its own rows."""
        self.rollouts, self.steps, self.share = rollouts, steps, share
        self.environments = environments if share is None else share.count
        self.environments_of_all = environments
        self.observation_space = observation_space
        self.mask_width = mask_width  # 0 where no actions are masked
        self.stored = 0  # rollouts of the current phase
        self._allocated = False

    @property
    def full(self) -> bool:
        return self.stored == self.rollouts

    @property
    def samples(self) -> int:
        """Rows of a whole phase, of all processes."""
        return self.rollouts * self.steps * self.environments_of_all

    @property
    def own_samples(self) -> int:
        """Those of them that are here."""
        return self.rollouts * self.steps * self.environments

    @property
    def numbers_per_observation(self) -> int:
        one = allocate_observations(self.observation_space, (1, 1))
        return sum(part.size for part in observation_parts(one))

    @property
    def bytes(self) -> int:
        """Memory of the whole buffer."""
        one = allocate_observations(self.observation_space, (1, 1))
        observation = sum(part.nbytes for part in observation_parts(one))
        return self.own_samples * (observation + self.mask_width + np.dtype(np.float32).itemsize + 1)

    def allocate(self) -> None:
        """Take the memory, once; an error with advice where it is more than the machine has free."""
        if self._allocated:
            return
        free = available_memory()
        if free is not None and self.bytes > free:
            raise NotEnoughMemoryError(
                f"the auxiliary buffer needs {in_gigabytes(self.bytes)}, {in_gigabytes(free)} of memory are free: it "
                f"keeps rollouts_per_phase {self.rollouts} rollouts of n_steps {self.steps} times {self.environments} "
                "environments. Choose a smaller rollouts_per_phase (16 learns as well as 32), n_steps or number of "
                "environments, or smaller observations (images as uint8)"
            )
        shape = (self.rollouts * self.steps, self.environments)
        self.observations = allocate_observations(self.observation_space, shape)
        self.returns = np.zeros(shape, np.float32)
        self.valid = np.ones(shape, np.bool_)
        self.action_masks = np.ones((*shape, self.mask_width), np.bool_) if self.mask_width else None
        self._allocated = True

    def clear(self) -> None:
        """Begin a new phase in the same memory."""
        self.stored = 0

    def add(self, rollout: Rollout) -> None:
        """Copy what the auxiliary phase needs of a rollout."""
        if (rollout.steps, rollout.environments) != (self.steps, self.environments):
            raise ValueError(
                f"the rollout holds {rollout.steps} steps of {rollout.environments} environments; the auxiliary buffer "
                f"was made for {self.steps} of {self.environments}: make a new model, or load() the saved one"
            )
        self.allocate()
        place = slice(self.stored * self.steps, (self.stored + 1) * self.steps)
        write_observation(self.observations, place, rollout.observations)
        self.returns[place] = rollout.returns
        self.valid[place] = True if rollout.valid is None else rollout.valid
        self._add_masks(rollout.action_masks, place)
        self.stored += 1

    def change_returns(self, change: Callable[[Array], Array]) -> None:
        """Tell the stored returns in other units."""
        if self.stored:
            filled = slice(0, self.stored * self.steps)
            self.returns[filled] = change(self.returns[filled])

    def _add_masks(self, masks: Array | None, place: slice) -> None:
        if masks is not None and self.action_masks is None:
            self.mask_width = masks.shape[-1]
            self.action_masks = np.ones((*self.returns.shape, self.mask_width), np.bool_)
        if self.action_masks is not None:
            self.action_masks[place] = True if masks is None else masks

    def piece_length(self, minibatches: int) -> int:
        """Steps that stay together when the phase is cut into equal minibatches: whole rollouts where possible."""
        fitting = [
            length
            for length in range(1, self.steps + 1)
            if self.steps % length == 0 and self.samples // length % minibatches == 0
        ]
        if not fitting:
            raise ValueError(
                f"num_aux_mini_batch {minibatches} does not divide the {self.samples} samples of the auxiliary phase "
                f"(rollouts_per_phase {self.rollouts} * n_steps {self.steps} * {self.environments_of_all} environments)"
            )
        return max(fitting)

    def epoch(self, minibatches: int, generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Rows of each minibatch of one pass in random order; rows that must not train are left out.

        All processes draw the same minibatches, and each gets those of their rows that are here.
        """
        length, environments = self.piece_length(minibatches), self.environments_of_all
        pieces = generator.permutation(self.samples // length)
        within = np.arange(length) * environments
        valid = self.valid.reshape(-1)
        everything = bool(valid.all())
        for part in pieces.reshape(minibatches, -1):
            first = part // environments * length * environments + part % environments
            rows = (first[:, None] + within).reshape(-1)
            if self.share is not None:
                rows = own_indices(rows, self.share)
            yield rows if everything else rows[valid[rows]]

    def chunks(self, rows: NDArray[np.int64], device: torch.device) -> Iterator[PhaseBatch]:
        """Rows in pieces whose activations fit the memory; gradients of the pieces add up to that of the whole."""
        size = max(1, min(LARGEST_CHUNK, NUMBERS_PER_CHUNK // self.numbers_per_observation))
        observations = flat_observations(self.observations, torch.device("cpu"))
        returns = torch.from_numpy(self.returns.reshape(-1))
        masks = None if self.action_masks is None else torch.from_numpy(self.action_masks.reshape(-1, self.mask_width))
        for piece in torch.from_numpy(rows).split(size):
            yield PhaseBatch(
                piece.to(device),
                map_observation(lambda part: part.to(device), take_observations(observations, piece)),
                returns[piece].to(device),
                None if masks is None else masks[piece].to(device),
            )

    # -- what a checkpoint keeps

    def state(self) -> dict[str, Any]:
        """The rollouts of the unfinished phase: how many, and views of their arrays by name."""
        if not self.stored:
            return {"stored": 0}
        filled = slice(0, self.stored * self.steps)
        return {"stored": self.stored} | {name: memory[filled] for name, memory in self._memories().items()}

    def load_state(self, arrays: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        stored = int(arrays["stored"])
        if not 0 <= stored <= self.rollouts:
            raise ValueError(f"the state holds {stored} rollouts, the auxiliary buffer has room for {self.rollouts}")
        if stored:
            self.allocate()
            if "action_masks" in arrays:
                self._add_masks(arrays["action_masks"], slice(0, stored * self.steps))
            for name, memory in self._memories().items():
                given = arrays.get(name)
                wanted = (stored * self.steps, *memory.shape[1:])
                if given is None or given.shape != wanted:
                    raise ValueError(
                        f"{name} of the auxiliary buffer is {None if given is None else given.shape} in the state, "
                        f"expected {wanted}"
                    )
                memory[: len(given)] = given
        self.stored = stored

    def _memories(self) -> dict[str, Array]:
        arrays = {"returns": self.returns, "valid": self.valid}
        if isinstance(self.observations, dict):
            arrays |= {f"observations.{key}": memory for key, memory in self.observations.items()}
        else:
            arrays["observations"] = self.observations
        return arrays if self.action_masks is None else arrays | {"action_masks": self.action_masks}


LARGEST_CHUNK = 2048  # rows: activations of larger ones leave the cache
NUMBERS_PER_CHUNK = 2**23  # of observations: a convolutional network's activations are some hundred times as many bytes


def in_gigabytes(count: int) -> str:
    """
    >>> in_gigabytes(6_400_000_000), in_gigabytes(1_500_000), in_gigabytes(2000)
    ('6.4 GB', '1.5 MB', '2 kB')
    """
    for size, unit in ((1e9, "GB"), (1e6, "MB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{math.ceil(count / 1000)} kB"
