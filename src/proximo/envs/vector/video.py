"""Film the environments while they run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from proximo.data import Observation, StepArrays
from proximo.envs.rendering import Film
from proximo.envs.vector.vec_env import StepTransform, VecEnv
from proximo.errors import ArgumentValueError
from proximo.other_libraries import stands_for


@stands_for("stable_baselines3.common.vec_env.vec_video_recorder", "VecVideoRecorder")
class VecVideoRecorder(StepTransform):
    """Record ``video_length`` steps whenever ``record_video_trigger(step)`` says so, counting vector steps.

    Files are ``<name_prefix>-step-<from>-to-step-<to>.mp4`` (``.gif`` without imageio-ffmpeg). The environments
    must be made with ``render_mode="rgb_array"``; several are tiled in one picture. Close it to finish the last film.
    """

    video_name: str
    video_path: str

    def __init__(
        self,
        venv: VecEnv,
        video_folder: str | Path,
        record_video_trigger: Callable[[int], bool],
        video_length: int = 200,
        name_prefix: str = "rl-video",
    ) -> None:
        """Arguments:
        venv: The vector environment that is wrapped, made with render_mode="rgb_array".
        video_folder: Where films are written.
        record_video_trigger: Says for a number of vector steps whether a film begins there.
        video_length: Steps of a film.
        name_prefix: What names of films begin with.
        """
        super().__init__(venv)
        if self.render_mode != "rgb_array":
            raise ArgumentValueError(
                f"filming needs environments made with render_mode='rgb_array', not {self.render_mode!r}"
            )
        self.frames_per_sec = float(self._environment_metadata().get("render_fps", 30))
        self.video_folder = str(Path(video_folder).absolute())
        self.record_video_trigger = record_video_trigger
        self.video_length = video_length
        self.name_prefix = name_prefix
        self.step_id = 0
        self.recording = False
        self._film: Film | None = None

    def _environment_metadata(self) -> dict[str, Any]:
        try:
            return dict(self.venv.get_attr("metadata", 0)[0])
        except AttributeError:
            return self.venv.unwrapped.metadata

    def reset(self) -> Observation:
        observations = self.venv.reset()
        if self.record_video_trigger(self.step_id):
            self._start()
        return observations

    def transform(self, step: StepArrays) -> StepArrays:
        self.step_id += 1
        if self.recording:
            self._capture()
            if self._film is not None and self._film.frames > self.video_length:
                self._finish()
        elif self.record_video_trigger(self.step_id):
            self._start()
        return step

    def _start(self) -> None:
        self._finish()
        last_step = self.step_id + self.video_length
        self.video_name = f"{self.name_prefix}-step-{self.step_id}-to-step-{last_step}.mp4"
        self.video_path = str(Path(self.video_folder) / self.video_name)
        self.recording = True
        Path(self.video_folder).mkdir(parents=True, exist_ok=True)
        self._film = Film(self.video_path, self.frames_per_sec)
        self.video_path = str(self._film.path)
        self._capture()

    def _capture(self) -> None:
        frame = self.venv.render()
        if not isinstance(frame, np.ndarray):
            warnings.warn(f"filming stopped: expected an image from render(), got {type(frame).__name__}", stacklevel=2)
            self._finish()
            return
        if self._film is not None:
            self._film.add(frame)

    def _finish(self) -> None:
        """End the film, if there is one."""
        film, self._film, self.recording = self._film, None, False
        if film is not None:
            film.close()

    rows_in_state = ()

    def own_state(self) -> dict[str, Any]:
        """The step count; a film under way is not part of it."""
        return {"step_id": self.step_id}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        self._finish()
        self.step_id = int(state["step_id"])

    def close(self) -> None:
        self._finish()
        super().close()
