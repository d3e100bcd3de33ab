"""Run folders of strangers: nothing of them stalls, fills memory, writes elsewhere or speaks to the terminal."""

from __future__ import annotations

import io
import json
import os
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from faults.run_folders import good_files
from proximo import PPO
from proximo.cli.main import main
from proximo.cli.report import content_of
from proximo.cli.runs import Run
from proximo.envs.wrappers.monitor import LoadMonitorResultsError, load_results
from proximo.errors import ProximoError
from proximo.reports.page import embedded_film
from proximo.reports.results import runs_within
from proximo.training.run_lock import living_holder

from .conftest import Tally

KIND = "hostile run folders"
TIMES_THE_FILE = 12  # memory that reading a file of short cells may take: 16 bytes for a point of three characters


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    for name, data in good_files().items():
        (folder / name).write_bytes(data)
    return folder


def report(folder: Path) -> object:
    return content_of([Run.open(folder)], embedded_film)


def arrays(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return stream.getvalue()


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def damaged_stream() -> bytes:
    data = bytearray(arrays(timesteps=npy("x" * 500), results=npy("y" * 500)))
    data[50:60] = b"\xff" * 10
    return bytes(data)


STEPS = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}", bytes(8))
REFUSED: dict[str, tuple[str, Callable[[], bytes]]] = {
    "evaluations that unpack to a thousand times their length": (
        "evaluations.npz",
        lambda: arrays(
            timesteps=STEPS,
            results=npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': (1, {2**24})}}", bytes(2**27)),
        ),
    ),
    "evaluations of more numbers than there is memory": (
        "evaluations.npz",
        lambda: arrays(timesteps=STEPS, results=npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2**50,)}")),
    ),
    "evaluations of a petabyte": (
        "evaluations.npz",
        lambda: arrays(
            timesteps=STEPS, results=npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**50},)}}")
        ),
    ),
    "evaluations with a header of brackets": ("evaluations.npz", lambda: arrays(timesteps=npy("(" * 5000))),
    "evaluations with half a text": ("evaluations.npz", lambda: arrays(timesteps=npy("'''"), results=STEPS)),
    "evaluations of texts": (
        "evaluations.npz",
        lambda: arrays(timesteps=STEPS, results=npy("{'descr': '|S1', 'fortran_order': False, 'shape': (1, 1)}", b"5")),
    ),
    "evaluations of millions of empty rows": (
        "evaluations.npz",
        lambda: arrays(
            timesteps=npy(f"{{'descr': '|i1', 'fortran_order': False, 'shape': ({2**22},)}}", bytes(2**22)),
            results=npy(f"{{'descr': '|i1', 'fortran_order': False, 'shape': ({2**22}, 1)}}", bytes(2**22)),
        ),
    ),
    "a configuration under a name of a hundred thousand parts": ("config.toml", lambda: b"a." * 100_000 + b"a = 1"),
    "evaluations with a damaged stream": ("evaluations.npz", damaged_stream),
    "versions nested without end": ("versions.json", lambda: b"[" * 100_000),
    "versions of a million lists": ("versions.json", lambda: b"[" + b"[]," * 1_500_000 + b"[]]"),
    "a journal of a hundred thousand events": ("journal.jsonl", lambda: b'{"event":""}\n' * 100_000),
    "a journal of one line without end": ("journal.jsonl", lambda: b" " * (5 * 2**20)),
    "metrics of one line without end": ("progress.csv", lambda: b"a," * (3 * 2**20)),
    "metrics of too many columns": ("progress.csv", lambda: b",".join(b"c%d" % n for n in range(10_000)) + b"\n1,2\n"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_file_of_a_run_is_refused(name: str, run: Path, tally: Tally) -> None:
    file, content = REFUSED[name]
    (run / file).write_bytes(content())
    with tally.case(KIND), pytest.raises(ProximoError):
        report(run)


def test_metrics_take_memory_in_proportion_to_their_length(run: Path, tally: Tally) -> None:
    report(run)  # imports
    columns = ["time/total_timesteps", *(f"c{number}" for number in range(99))]
    rows = "\n".join(",".join([str(row), *["1"] * 99]) for row in range(5_000))
    (run / "progress.csv").write_text(",".join(columns) + "\n" + rows)
    size = (run / "progress.csv").stat().st_size
    with tally.case(KIND):
        from proximo.analysis.plotting import read_curves

        tracemalloc.start()
        try:
            assert len(read_curves(run)) == 100
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < TIMES_THE_FILE * size, f"{peak / size:.1f} times the file"


@pytest.mark.parametrize("name", ["versions.json", "config.toml"])
def test_long_names_of_tables_are_not_repeated_for_each_entry(name: str, run: Path, tally: Tally) -> None:
    title, entries = "k" * 60_000, {f"a{number}": number for number in range(9_000)}
    if name == "versions.json":
        (run / name).write_text(json.dumps({title: {title: entries}}))
    else:
        table = "\n".join(f"{key} = {value}" for key, value in entries.items())
        (run / name).write_text(f"{(run / name).read_text()}[policy_kwargs.{title}]\n{table}\n")
    report(run)  # imports
    with tally.case(KIND):
        tracemalloc.start()
        try:
            content = report(run)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 64 * 2**20, f"{peak >> 20} MiB"
        assert "more than a page shows" in str(content)


def test_links_within_a_folder_of_runs_are_not_walked(run: Path, tally: Tally) -> None:
    for number in range(2_000):
        (run.parent / f"link{number}").symlink_to(".")
    with tally.case(KIND):
        assert runs_within(run.parent) == [run]


def monitor_file(run: Path, table: str) -> None:
    (run / "0.monitor.csv").write_text('#{"t_start": 0.0, "env_id": "x"}\n' + table)


NAMES = ",".join(f"c{number}" for number in range(20_000))


@pytest.mark.parametrize(
    "table",
    [
        "r,l,t," + ",".join(f"c{number}" for number in range(253)) + "\n" + "1\n" * 100_000,
        f'"r\n",l,t,{NAMES},"x"\n' + "1\n" * 2_000,
        f'r,l,t,"{"k" * 70_000}\n",{NAMES}\n' + "1\n" * 2_000,
    ],
    ids=["rows shorter than the header", "a header of two lines", "a long header"],
)
def test_episodes_take_memory_in_proportion_to_their_length(table: str, run: Path, tally: Tally) -> None:
    monitor_file(run, "r,l,t\n")
    load_results(run)  # imports
    monitor_file(run, table)
    with tally.case(KIND):
        tracemalloc.start()
        try:
            with pytest.raises(LoadMonitorResultsError):
                load_results(run)
            assert tracemalloc.get_traced_memory()[1] < 16 * len(table) + 2**22
        finally:
            tracemalloc.stop()


def test_a_row_of_episodes_that_a_kill_cut_off_is_read(run: Path) -> None:
    monitor_file(run, "r,l,t\n1.0,2,3.0\n\n4.0,5")
    assert load_results(run)["r"].tolist() == [1.0, 4.0]


def test_a_pipe_in_the_place_of_episodes_stalls_nobody(run: Path, tally: Tally) -> None:
    os.mkfifo(run / "0.monitor.csv")
    with tally.case(KIND), pytest.raises(LoadMonitorResultsError, match="no file"):
        load_results(run)


@pytest.mark.parametrize("content", [None, b"[" * 100_000, b"x" * 100_000, b'{"owner": [[]], "since": {}}'])
def test_a_lock_that_is_none_stalls_nobody(content: bytes | None, run: Path, tally: Tally) -> None:
    lock = run / "writer.1.lock"
    if content is None:
        os.mkfifo(lock)
    else:
        lock.write_bytes(content)
    with tally.case(KIND):
        holder = living_holder(run)
        assert holder is not None
        assert "has not told its name" in str(holder)


@pytest.mark.parametrize("name", ["result.json", "progress.csv", "journal.jsonl", "versions.json", "evaluations.npz"])
def test_a_pipe_in_the_place_of_a_file_stalls_nobody(name: str, run: Path, tally: Tally) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    with tally.case(KIND):
        report(run)


@pytest.mark.parametrize("name", list(good_files()))
def test_a_link_to_a_file_elsewhere_is_not_read(name: str, run: Path, tmp_path: Path, tally: Tally) -> None:
    secret = tmp_path / "secret"
    (run / name).rename(secret)
    (run / name).symlink_to(secret)
    with tally.case(KIND):
        if name == "video.gif":
            assert "leads out of the run folder" in str(report(run))
        else:
            with pytest.raises(ProximoError, match="leads out of the run folder"):
                report(run)


@pytest.mark.parametrize("name", ["config.toml", "progress.csv"])
def test_no_picture_is_drawn_of_a_file_elsewhere(
    name: str, run: Path, tmp_path: Path, tally: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / name).rename(tmp_path / name)
    (run / name).symlink_to(tmp_path / name)
    with tally.case(KIND):
        assert main(["plot", str(run), "-o", str(tmp_path / "x.png")]) == 2
        assert f"{name} leads out of the run folder" in capsys.readouterr().err
        assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize("words", [["plot", "-o", "x"], ["report", "-o", "x"], ["evaluate"]])
def test_a_group_brings_no_run_of_the_reader(
    words: list[str], run: Path, tmp_path: Path, tally: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder in it that is a link to a run of one's own would be in the page that is then published."""
    group = tmp_path / "group"
    group.mkdir()
    (group / "group.toml").write_text('seeds = [1]\njobs = 1\ncommand = ["CartPole-v1"]\n')
    (group / "seed").symlink_to(run)
    with tally.case(KIND):
        assert main([words[0], str(group), *words[1:]]) == 2
        assert "has no config.toml" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["plot"], ["watch"]])
def test_nothing_is_written_through_a_link(
    words: list[str], run: Path, tmp_path: Path, tally: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious")
    for name in ("learning_curve.png", "video.gif"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(mine)
    with tally.case(KIND):
        assert main([*words, str(run)]) == 2
        assert "leads out of the run folder" in capsys.readouterr().err
        assert mine.read_text() == "precious"


def test_names_are_neither_formulas_nor_markup_nor_codes(
    run: Path, tally: Tally, capfd: pytest.CaptureFixture[str]
) -> None:
    config = 'env = "$x^$ [/bold] \\u001b[2J"\nalgo = "ppo"\nseed = 1\npreset = "x"\n'
    (run / "config.toml").write_text(config)
    (run.parent / "x[").mkdir()
    odd = run.rename(run.parent / "x[" / "red] \x1b]0;title\x07")  # a path that ends a style
    with tally.case(KIND):
        assert main(["plot", str(odd), "-o", str(odd / "picture.png")]) == 0
        assert (odd / "picture.png").is_file()
        told = capfd.readouterr()
        assert "\x1b" not in told.out + told.err
        assert "[/red] ?]0;title" in told.out


def test_names_of_groups_are_no_formulas(run: Path, tmp_path: Path, tally: Tally) -> None:
    odd = tmp_path / "$x^$ \\input{x}"
    odd.mkdir()
    run.rename(odd / "run")
    (tmp_path / "other").mkdir()
    shutil.copytree(odd / "run", tmp_path / "other" / "run")
    picture, table = tmp_path / "x.png", tmp_path / "x.tex"
    words = ["compare", str(odd), str(tmp_path / "other"), "--repetitions", "10"]
    with tally.case(KIND):
        assert main([*words, "-o", str(picture), "--latex", str(table)]) == 0
        assert picture.is_file()
        assert r"\$x\textasciicircum{}\$ \textbackslash{}input\{x\}" in table.read_text()


@pytest.mark.parametrize(
    "setting",
    ['env_wrapper = { FrameSkip = { skip = "x" } }', 'env_kwargs = { id = "x:Y-v0" }',
     'env_kwargs = { entry_point = "os:system" }', 'env_kwargs = { env_id = "x:Y-v0" }'],
)  # fmt: skip
def test_settings_that_no_environment_takes_are_one_line(
    setting: str, run: Path, tally: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8).save(run / "model.zip")
    (run / "config.toml").write_text((run / "config.toml").read_text() + setting + "\n")
    with tally.case(KIND):
        assert main(["evaluate", str(run), "--episodes", "1"]) == 2
        assert "the environment CartPole-v1 cannot be made" in capsys.readouterr().err


def test_a_broken_float_in_evaluations_is_left_out(run: Path) -> None:
    np.savez(run / "evaluations.npz", timesteps=np.array([1]), results=np.array([[np.nan, 1.0]]))
    report(run)
