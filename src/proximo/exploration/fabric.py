"""Several intrinsic rewards together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from proximo.exploration.base import IntrinsicReward, Samples


class Fabric(IntrinsicReward):
    """Several rewards over the same samples. ``compute`` gives them one by one; a subclass mixes them::

        class Mixed(Fabric):
            def compute(self, samples, sync=True):
                novelty, surprise = super().compute(samples, sync)
                return novelty * surprise

    An agent that is given a plain ``Fabric`` adds them up (:func:`total_reward`). ``stream`` are ``extrinsic_coef``,
    ``own_value`` and ``discount`` of the mix; weights and normalisation are the parts' own.
    """

    def __init__(self, *rewards: IntrinsicReward, **stream: Any) -> None:
        if len(rewards) < 2:
            raise ValueError(f"a mix needs at least two rewards, got {len(rewards)}")
        if strangers := [type(part).__name__ for part in rewards if not isinstance(part, IntrinsicReward)]:
            raise TypeError(f"a mix is made of intrinsic rewards, got {strangers}")
        if unknown := stream.keys() - {"extrinsic_coef", "own_value", "discount"}:
            raise TypeError(f"a mix takes no {sorted(unknown)}; give it to its parts")
        IntrinsicReward.__init__(self, **stream)
        self.rewards = list(rewards)
        for part in rewards:
            if part.own_value or part.extrinsic_coef != 1.0:
                raise ValueError(
                    f"{type(part).__name__} has own_value={part.own_value} and extrinsic_coef={part.extrinsic_coef}; "
                    "in a mix these are the mix's: Fabric(…, own_value=True, extrinsic_coef=2.0)"
                )
        if all(part.bound for part in rewards):
            self.bind(*rewards[0].bound_to)

    def __repr__(self) -> str:
        named = [f"{name}={value!r}" for name, value in self.arguments().items()]
        return f"{type(self).__name__}({', '.join([*map(repr, self.rewards), *named])})"

    def arguments(self) -> dict[str, Any]:
        return {"extrinsic_coef": self.extrinsic_coef, "own_value": self.own_value, "discount": self.discount}

    def build(self) -> None:
        for part in self.rewards:
            part.bind(*self.bound_to)

    def compute(self, samples: Samples, sync: bool = True) -> list[Tensor]:  # type: ignore[override]
        for part in self.rewards:
            part.skip_non_finite = self.skip_non_finite
        self.global_step += int(sync)
        return [part.compute(samples, sync) for part in self.rewards]

    def update(self, samples: Samples) -> None:
        for part in self.rewards:
            part.update(samples)

    def state_dict(self) -> dict[str, Any]:
        return {"global_step": self.global_step, "rewards": [part.state_dict() for part in self.rewards]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.global_step = int(state["global_step"])
        for part, saved in zip(self.rewards, state["rewards"], strict=True):
            part.load_state_dict(saved)
