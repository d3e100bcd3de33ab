"""Pictures of environments: tiling, showing in a window, writing a film."""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proximo.data import Array
from proximo.errors import MissingExtraError

VIDEO_SUFFIXES = (".gif", ".mp4")

_window: dict[str, Any] = {}  # the one figure that `show_image` draws into


def tile_images(images_nhwc: Sequence[Array]) -> Array:
    """Arrange images [height, width, channel] on a grid as square as can be, row by row, empty places black.

    >>> tile_images([np.ones((2, 3, 3), np.uint8)] * 5).shape
    (6, 6, 3)
    """
    stack = np.stack(list(images_nhwc))
    count, height, width, channels = stack.shape
    rows = math.ceil(math.sqrt(count))
    columns = math.ceil(count / rows)
    grid = np.zeros((rows * columns, height, width, channels), stack.dtype)
    grid[:count] = stack
    grid = grid.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return grid.reshape(rows * height, columns * width, channels)


def show_image(image: Array) -> None:
    """Show an RGB image in a window, always the same one; without a display, warn and go on."""
    from matplotlib import pyplot

    figure = _window.get("figure")
    if figure is None or not pyplot.fignum_exists(figure.number):
        figure = pyplot.figure("environment", frameon=False)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        _window.update(figure=figure, picture=axes.imshow(image))
        if figure.canvas.required_interactive_framework is not None:
            figure.show()
    if figure.canvas.required_interactive_framework is None:  # a backend that only writes files
        warnings.warn(
            "no display to show the environment on; use render('rgb_array') or VecVideoRecorder instead", stacklevel=3
        )
        return
    _window["picture"].set_data(image)
    figure.canvas.draw_idle()
    figure.canvas.flush_events()


def check_video_file(path: Path) -> None:
    """Refuse a name that no film can be written to as it says: another suffix, or .mp4 without its encoder."""
    suffix = path.suffix.lower()
    if suffix not in VIDEO_SUFFIXES:
        came = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise ValueError(f"the film {path} has {came}; expected {' or '.join(VIDEO_SUFFIXES)}")
    if suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise MissingExtraError("imageio-ffmpeg", "video", "writing an MP4 file")


def write_video(path: str | Path, frames: Sequence[Array], frames_per_second: float) -> Path:
    """Write RGB frames as MP4 where imageio-ffmpeg is installed, else as GIF beside it; returns the file written."""
    path = Path(path)
    if path.suffix.lower() != ".gif" and importlib.util.find_spec("imageio_ffmpeg") is not None:
        _write_mp4(path, frames, frames_per_second)
        return path
    if importlib.util.find_spec("PIL") is None:
        raise MissingExtraError("imageio-ffmpeg", "video", "writing a video")
    path = path.with_suffix(".gif")
    _write_gif(path, frames, frames_per_second)
    return path


def _write_mp4(path: Path, frames: Sequence[Array], frames_per_second: float) -> None:
    import imageio_ffmpeg  # type: ignore[import-untyped]

    height, width = frames[0].shape[:2]
    height, width = height - height % 2, width - width % 2  # H.264 wants even sides
    writer = imageio_ffmpeg.write_frames(
        str(path), (width, height), fps=frames_per_second, macro_block_size=2, ffmpeg_log_level="error"
    )
    writer.send(None)
    for frame in frames:
        writer.send(np.ascontiguousarray(frame[:height, :width], np.uint8))
    writer.close()


def _write_gif(path: Path, frames: Sequence[Array], frames_per_second: float) -> None:
    from PIL import Image

    first, *rest = [Image.fromarray(np.asarray(frame, np.uint8)) for frame in frames]
    milliseconds = max(20, round(1000 / frames_per_second))  # viewers slow shorter frames down
    first.save(path, save_all=True, append_images=rest, duration=milliseconds, loop=0)
