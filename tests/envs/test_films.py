"""Films are written frame by frame: what is shown is what was drawn, and memory does not grow with the length."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from PIL import Image

from proximo.envs.rendering import Film, write_video

PROGRAM = """
import resource, sys
import numpy as np
from proximo.envs.rendering import Film
for path in sys.argv[1:]:
    with Film(path, 25) as film:
        for number in range(120):
            frame = np.full((512, 512, 3), 40, np.uint8)
            frame[10:20, number : number + 100] = 250
            film.add(frame)
            if number == 20:
                base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) // 1024)
"""


def drawing(number):
    """A square that moves over a gradient."""
    frame = np.zeros((60, 80, 3), np.uint8)
    frame[..., 0] = 40
    frame[10:20, 5 + number : 15 + number] = (250, 200, 30)
    return frame


def test_a_gif_shows_every_frame(tmp_path):
    frames = [drawing(number) for number in (0, 1, 1, 30, 5)]
    path = write_video(tmp_path / "film.gif", iter(frames), 10)
    with Image.open(path) as film:
        assert (film.n_frames, film.size, film.info["duration"], film.info["loop"]) == (5, (80, 60), 100, 0)
        for number, frame in enumerate(frames):
            film.seek(number)
            shown = np.asarray(film.convert("RGB"), int)
            assert np.abs(shown - frame).max() <= 3  # 256 colours


def test_memory_does_not_grow_with_the_length(tmp_path):
    """A hundred frames are 79 MB."""
    paths = [str(tmp_path / "film.gif"), str(tmp_path / "film.mp4")]
    found = subprocess.run([sys.executable, "-c", PROGRAM, *paths], capture_output=True, text=True, check=True)
    assert max(map(int, found.stdout.split())) < 30  # MiB


def test_a_film_without_frames_is_no_file(tmp_path):
    with Film(tmp_path / "film.gif", 10):
        pass
    assert not (tmp_path / "film.gif").exists()
