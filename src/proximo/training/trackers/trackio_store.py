"""trackio."""

from __future__ import annotations

import importlib.util
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from proximo.errors import MissingExtraError
from proximo.training.log_formats import Ending
from proximo.training.trackers.base import TrackedRun, TrackerError, check_folder, run_title


class TrackioRun(TrackedRun):
    """A run of trackio: on this machine, or where ``TRACKIO_SPACE_ID`` or ``TRACKIO_SERVER_URL`` say.

    The project is that of ``TRACKIO_PROJECT``, else proximo. trackio finds runs by their name, so the name carries a
    random part. It writes half a second later and keeps every value of a step; how a run ended it does not know.
    """

    name: ClassVar[str] = "trackio"

    @classmethod
    def check(cls) -> None:
        if importlib.util.find_spec("trackio") is None:
            raise MissingExtraError("trackio", "trackio", "tracking with trackio")
        check_folder("TRACKIO_DIR")

    def _open(self, identity: Mapping[str, str], group: str | None) -> dict[str, str]:
        import trackio

        project = identity.get("project") or os.environ.get("TRACKIO_PROJECT", "proximo")
        name = identity.get("name") or f"{run_title(self.folder)}-{secrets.token_hex(3)}"
        try:
            # a run that was killed before anything was tracked is not in the store: "allow" begins it then
            self.run = trackio.init(
                project, name=name, group=group, resume="allow" if identity else "never", embed=False
            )
        except (ValueError, OSError) as error:
            raise TrackerError(f"trackio begins no run {name!r} in its project {project!r}: {error}") from error
        return {"id": self.run.id, "name": name, "project": project}

    def _write_values(self, values: dict[str, float | str], step: int) -> None:
        self.run.log(dict(values), step=step)

    def _write_config(self, config: Mapping[str, Any]) -> None:
        self.run.config.update(config)  # goes to the store with the first values

    def _write_picture(self, key: str, path: Path, step: int) -> None:
        import trackio

        shown = trackio.Image(str(path)) if path.suffix == ".png" else trackio.Video(str(path))
        self.run.log({key: shown}, step=step)

    def _write_model(self, path: Path) -> None:
        self.run.log_artifact(str(path), name=f"{self.run.name}-model", type="model")

    def _finish(self, ending: Ending) -> None:
        import trackio

        if trackio.context_vars.current_run.get() is self.run:
            trackio.finish()  # else it would be finished once more when Python ends
        else:
            self.run.finish()
