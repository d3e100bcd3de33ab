"""Pictures of environments: tiling, showing in a window, writing a film."""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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


def write_video(path: str | Path, frames: Iterable[Array], frames_per_second: float) -> Path:
    """Write RGB frames as they come, as MP4 where imageio-ffmpeg is installed, else as GIF beside it.

    Returns the file written.
    """
    with Film(path, frames_per_second) as film:
        for frame in frames:
            film.add(frame)
    return film.path


class Film:
    """A film that is written frame by frame: no more than one frame is in memory."""

    def __init__(self, path: str | Path, frames_per_second: float) -> None:
        """Arguments:
        path: Where it is written; the ending says as what: gif, or mp4 with the extra video.
        frames_per_second: How fast it plays.
        """
        path = Path(path)
        is_mp4 = path.suffix.lower() != ".gif" and importlib.util.find_spec("imageio_ffmpeg") is not None
        if not is_mp4 and importlib.util.find_spec("PIL") is None:
            raise MissingExtraError("imageio-ffmpeg", "video", "writing a video")
        self.path = path if is_mp4 else path.with_suffix(".gif")
        self.frames_per_second = frames_per_second
        self.frames = 0
        self._write = _mp4_frames if is_mp4 else _gif_frames
        self._writer: Generator[None, Array, None] | None = None

    def add(self, frame: Array) -> None:
        """Write an RGB frame [height, width, channel]."""
        if self._writer is None:
            self._writer = self._write(self.path, self.frames_per_second)
            next(self._writer)
        self._writer.send(np.asarray(frame, np.uint8))
        self.frames += 1

    def close(self) -> None:
        """Finish the file; without a frame there is none."""
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _mp4_frames(path: Path, frames_per_second: float) -> Generator[None, Array, None]:
    import imageio_ffmpeg  # type: ignore[import-untyped]

    frame = yield
    height, width = frame.shape[:2]
    height, width = height - height % 2, width - width % 2  # H.264 wants even sides
    writer = imageio_ffmpeg.write_frames(
        str(path), (width, height), fps=frames_per_second, macro_block_size=2, ffmpeg_log_level="error"
    )
    writer.send(None)
    try:
        while True:
            writer.send(np.ascontiguousarray(frame[:height, :width]))
            frame = yield
    finally:
        writer.close()


def _gif_frames(path: Path, frames_per_second: float) -> Generator[None, Array, None]:
    """Of each frame the rectangle that is not as before. Pillow's own writer would keep all of them until the end."""
    from PIL import GifImagePlugin, Image

    milliseconds = max(20, round(1000 / frames_per_second))  # viewers slow shorter frames down
    with path.open("wb") as stream:
        frame = yield
        first = Image.fromarray(frame).quantize(256)
        for block in GifImagePlugin.getheader(first, info={"loop": 0, "duration": milliseconds})[0]:
            stream.write(block)
        shown, corner = None, (0, 0)
        try:
            while True:
                part, corner = (frame, corner) if shown is None else _changed(shown, frame)
                picture = Image.fromarray(part).quantize(256)
                for block in GifImagePlugin.getdata(
                    picture, corner, duration=milliseconds, disposal=1, include_color_table=True
                ):
                    stream.write(block)
                shown = frame.copy()  # an environment may draw into the same memory again
                frame = yield
        finally:
            stream.write(b";")


def _changed(shown: Array, frame: Array) -> tuple[Array, tuple[int, int]]:
    """The rectangle in which a frame differs from the one before, and its corner; a single point where it is equal."""
    differs = (shown != frame).any(axis=2) if shown.shape == frame.shape else np.ones(frame.shape[:2], np.bool_)
    rows, columns = (np.flatnonzero(differs.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return frame[:1, :1], (0, 0)
    top, left = int(rows[0]), int(columns[0])
    return np.ascontiguousarray(frame[top : rows[-1] + 1, left : columns[-1] + 1]), (left, top)
