"""Several intrinsic rewards together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from proximo.exploration.base import BaseReward, Samples


class Fabric(BaseReward):
    """Several rewards over the same samples. ``compute`` gives them one by one; a subclass mixes them::

        class Mixed(Fabric):
            def compute(self, samples, sync=True):
                novelty, surprise = super().compute(samples, sync)
                return novelty * surprise

    An agent that is given a plain ``Fabric`` adds them up (:func:`total_reward`).
    """

    def __init__(self, *rewards: BaseReward) -> None:
        if len(rewards) < 2:
            raise ValueError(f"a mix needs at least two rewards, got {len(rewards)}")
        if strangers := [type(part).__name__ for part in rewards if not isinstance(part, BaseReward)]:
            raise TypeError(f"a mix is made of intrinsic rewards, got {strangers}")
        self.rewards = list(rewards)
        self.device, self.n_envs = rewards[0].device, rewards[0].n_envs

    def watch(self, *step: Tensor, **named: Tensor) -> None:
        for part in self.rewards:
            part.watch(*step, **named)

    def compute(self, samples: Samples, sync: bool = True) -> list[Tensor]:  # type: ignore[override]
        return [part.compute(samples, sync) for part in self.rewards]

    def update(self, samples: Samples) -> None:
        for part in self.rewards:
            part.update(samples)

    def state_dict(self) -> dict[str, Any]:
        return {"rewards": [part.state_dict() for part in self.rewards]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for part, saved in zip(self.rewards, state["rewards"], strict=True):
            part.load_state_dict(saved)
