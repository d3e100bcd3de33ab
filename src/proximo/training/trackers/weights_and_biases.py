"""Weights & Biases."""

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

FLUSH_SECONDS = 1.0  # what kill -9 takes from a run's file
EXIT_CODES: dict[Ending, int] = {"finished": 0, "failed": 1, "interrupted": 130}


class WandbRun(TrackedRun):
    """A run of wandb, its files in the run's folder unless ``WANDB_DIR`` says otherwise.

    wandb's own environment variables decide the rest: ``WANDB_PROJECT`` (else proximo), ``WANDB_ENTITY``,
    ``WANDB_MODE=offline``, … wandb drops values of steps below its last one.
    """

    name: ClassVar[str] = "wandb"

    @classmethod
    def check(cls) -> None:
        if importlib.util.find_spec("wandb") is None:
            raise MissingExtraError("wandb", "wandb", "tracking with Weights & Biases")
        import wandb

        check_folder("WANDB_DIR")
        # a prompt for the key would go unseen: the command line keeps what libraries print away from the terminal
        is_offline = wandb.setup().settings.mode in ("offline", "disabled", "dryrun")
        try:
            has_key = is_offline or wandb.run is not None or wandb.login(prompt=False, verify=False)
        except wandb.Error as error:
            raise cls._refusal(str(error)) from error
        if not has_key:
            raise cls._refusal("there is no API key on this machine")

    @staticmethod
    def _refusal(reason: str) -> TrackerError:
        return TrackerError(
            f"Weights & Biases begins no run: {reason.rstrip('.')}; log in with `wandb login`, or set "
            "WANDB_MODE=offline and send the run later with `wandb sync`"
        )

    def _open(self, identity: Mapping[str, str], group: str | None) -> dict[str, str]:
        import wandb

        run_id = identity.get("id") or secrets.token_hex(4)
        try:
            self.run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "proximo"),
                id=run_id,
                name=run_title(self.folder),
                group=group,
                dir=None if "WANDB_DIR" in os.environ else str(self.folder),
                resume="allow" if identity else None,
                reinit="create_new",  # a run that the program has open is its own
                settings=_settings(),
            )
        except (wandb.Error, OSError, ValueError) as error:
            raise self._refusal(str(error)) from error
        return {"id": run_id}

    def _write_values(self, values: dict[str, float | str], step: int) -> None:
        self.run.log(values, step=step)

    def _kept_after(self, step: int) -> int:
        return self._last_step  # wandb keeps a step back until the next one comes: a film may belong to it

    def _write_config(self, config: Mapping[str, Any]) -> None:
        self.run.config.update(dict(config), allow_val_change=True)

    def _write_picture(self, key: str, path: Path, step: int) -> None:
        import wandb

        # of a file the suffix says the format
        shown = wandb.Image(str(path)) if path.suffix == ".png" else wandb.Video(str(path))
        self.run.log({key: shown}, step=step)

    def write_result(self, values: Mapping[str, float], step: int) -> None:
        """Into the summary, which has no steps: the training may have logged this one already."""
        with self._failing_as_warning("the result"):
            self.run.summary.update(dict(values))

    def _write_model(self, path: Path) -> None:
        self.run.log_artifact(str(path), name=f"{run_title(self.folder)}-model", type="model")

    def _finish(self, ending: Ending) -> None:
        self.run.finish(exit_code=EXIT_CODES[ending])


def _settings() -> Any:
    import wandb

    settings = wandb.Settings(console="off")
    if hasattr(settings, "x_transaction_log_flush_interval"):  # wandb's own is 15 seconds
        settings.x_transaction_log_flush_interval = FLUSH_SECONDS
    return settings
