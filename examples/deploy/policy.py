"""A policy that `proximo export` has written, played with NumPy and ONNX Runtime alone: no Proximo, no PyTorch."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnxruntime


class Policy:
    """Actions for observations, one environment's or a batch of them; memory is kept from step to step.

    >>> policy = Policy("policy.onnx")                                              # doctest: +SKIP
    >>> action = policy.act(observation, start=True)                                # doctest: +SKIP
    """

    def __init__(self, path: str, seed: int | None = None) -> None:
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        stored = self.session.get_modelmeta().custom_metadata_map
        self.metadata = {name: json.loads(text) for name, text in stored.items()}
        if self.metadata.get("format") != "proximo-policy-1":
            raise ValueError(f"{path} was not written by `proximo export`, or by another version of it")
        self.random = np.random.default_rng(seed)
        self.memory: dict[str, np.ndarray] = {}
        self._noise: np.ndarray | None = None

    def act(self, observation: Any, start: Any = False, action_masks: Any = None, batched: bool = False) -> Any:
        """The action, or with ``batched`` a list of them; ``start`` is true where an episode begins."""
        inputs = self._observation(observation, batched)
        rows = len(next(iter(inputs.values())))
        starts = np.broadcast_to(np.asarray(start, np.bool_), (rows,)).copy()
        wanted = self.metadata["inputs"]
        if "action_masks" in wanted:
            if action_masks is None:
                raise ValueError("this policy was exported with action masks: give those of the environment")
            inputs["action_masks"] = np.asarray(action_masks, np.bool_).reshape(rows, -1)
        if "noise" in wanted:
            inputs["noise"] = self._draw(rows, starts)
        if self.metadata["state"]:
            inputs |= {name: self._remembered(name, rows) for name in self.metadata["state"]}
            inputs["episode_start"] = starts
        names = list(self.metadata["outputs"])
        outputs = dict(zip(names, self.session.run(names, inputs), strict=True))
        self.memory = {before: outputs[after] for before, after in self.metadata["state"].items()}
        actions = [self._action(self.metadata["action_space"], outputs, row, ()) for row in range(rows)]
        return actions if batched else actions[0]

    def _observation(self, observation: Any, batched: bool) -> dict[str, np.ndarray]:
        inputs = {}
        for name, port in self.metadata["observation_inputs"].items():
            part = _part(observation, name)
            array = np.asarray(part, self.metadata["inputs"][port]["dtype"])
            inputs[port] = array if batched else array[None]
        return inputs

    def _remembered(self, name: str, rows: int) -> np.ndarray:
        shape = [rows if size == "batch" else size for size in self.metadata["inputs"][name]["shape"]]
        kept = self.memory.get(name)
        return kept if kept is not None and list(kept.shape) == shape else np.zeros(shape, np.float32)

    def _draw(self, rows: int, starts: np.ndarray) -> np.ndarray:
        """Random numbers of the kinds that the graph asks for, a column each; matrices stay for an episode."""
        shape = [rows, *self.metadata["inputs"]["noise"]["shape"][1:]]
        if len(shape) == 3:  # state-dependent exploration
            if self._noise is None or len(self._noise) != rows:
                self._noise = self.random.standard_normal(shape, np.float32)
            self._noise[starts] = self.random.standard_normal((int(starts.sum()), *shape[1:]), np.float32)
            return self._noise
        columns = [
            self.random.random(rows, np.float32) if kind == "uniform" else self.random.standard_normal(rows, np.float32)
            for kind in self.metadata["noise"]
        ]
        return np.stack(columns, axis=1)

    def _action(self, space: dict[str, Any], outputs: dict[str, np.ndarray], row: int, path: tuple[Any, ...]) -> Any:
        """One row of the outputs in the structure of the action space."""
        match space["type"]:
            case "Dict":
                return {key: self._action(part, outputs, row, (*path, key)) for key, part in space["spaces"].items()}
            case "Tuple":
                parts = enumerate(space["spaces"])
                return tuple(self._action(part, outputs, row, (*path, index)) for index, part in parts)
        return outputs[self.metadata["action_outputs"]["/".join(map(str, path))]][row]


def _part(observation: Any, name: str) -> Any:
    """The part that a name such as ``arm/0`` means; the observation itself, if it has none."""
    if not name:
        return observation
    if isinstance(observation, dict) and name in observation:
        return observation[name]
    for key in name.split("/"):
        observation = observation[key] if isinstance(observation, dict) else observation[int(key)]
    return observation
