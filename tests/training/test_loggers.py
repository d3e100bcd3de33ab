"""The logger writes what Stable-Baselines3's writes, byte for byte, and says clearly what it cannot write."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common import logger as sb3
from stable_baselines3.common import utils as sb3_utils

from proximo import PPO
from proximo.errors import MissingExtraError
from proximo.training import loggers
from proximo.training.callbacks import BaseCallback
from proximo.training.log_formats import CSVOutputFormat

TYPICAL = {
    "rollout/ep_rew_mean": 23.456789,
    "rollout/ep_len_mean": 23.4,
    "time/fps": 12345,
    "time/iterations": 3,
    "time/time_elapsed": 0,
    "time/total_timesteps": 6144,
    "train/approx_kl": np.float32(0.0091234),
    "train/clip_fraction": 1.23e-7,
    "train/learning_rate": 0.0003,
    "train/explained_variance": float("nan"),
    "train/loss": -np.inf,
}
CURIOUS = {
    "no_group": 1,
    "another": True,
    "a/very_long_key_that_is_cut_somewhere_near_its_end": 1.0,
    "a_group_with_a_very_long_name_of_its_own/x": "text",
    "text/value": "a very long value that does not fit the table at all, no",
    "nested/group/key": np.float64(2.5),
    "/slash_first": 5,
    "array/values": np.arange(3),
    "none/value": None,
    "z": 1e20,
}


def table(module, values, excluded=None, **options):
    file = io.StringIO()
    module.HumanOutputFormat(file, **options).write(values, excluded or dict.fromkeys(values, ("",)))
    return file.getvalue()


@pytest.mark.parametrize("values", [TYPICAL, CURIOUS, {"x": 1.0}, TYPICAL | CURIOUS])
@pytest.mark.parametrize("max_length", [36, 50])
def test_table_equals_sb3(values, max_length):
    assert table(loggers, values, max_length=max_length) == table(sb3, values, max_length=max_length)


names = st.text("abc_", min_size=1, max_size=12)
keys = st.one_of(names, st.tuples(names, names).map("/".join), st.tuples(names, names, names).map("/".join))
scalars = st.one_of(st.floats(), st.integers(), st.text("xy z", max_size=50), st.booleans())


@given(st.dictionaries(keys, scalars, min_size=1, max_size=8))
def test_table_equals_sb3_for_any_keys(values):
    assert table(loggers, values) == table(sb3, values)


def test_table_leaves_out_excluded_values():
    excluded = {"a/x": ("stdout",), "a/y": ("",), "b": ("log", "csv"), "c": ("tensorboard",)}
    values = {"a/x": 1.0, "a/y": 2.0, "b": 3.0, "c": 4.0}
    ours = table(loggers, values, excluded)
    assert ours == table(sb3, values, excluded)
    assert "x" not in ours
    assert "b" not in ours


def test_table_refuses_keys_that_are_cut_to_the_same():
    values = {"a/" + "k" * 40 + "1": 1, "a/" + "k" * 40 + "2": 2}
    with pytest.raises(ValueError, match="larger max_length"):
        table(loggers, values)
    assert len(table(loggers, values, max_length=60).splitlines()) == 5


def test_empty_table_warns():
    with pytest.warns(UserWarning, match="nothing was recorded"):
        assert table(loggers, {}) == ""


def test_table_follows_a_replaced_stdout():
    """A live progress display puts itself in place of sys.stdout after the logger was made."""

    class StandardOutput(io.StringIO):
        name = "<stdout>"

    written_at_first = StandardOutput()
    output = loggers.HumanOutputFormat(written_at_first)
    with redirect_stdout(io.StringIO()) as replaced:
        output.write({"a": 1.0}, {})
        output.write_sequence(["hello", "there"])
    assert written_at_first.getvalue() == ""
    assert replaced.getvalue().endswith("hello there\n")


def test_human_format_needs_a_file():
    with pytest.raises(ValueError, match="expected a path or an open text file"):
        loggers.HumanOutputFormat(3)


def dump_both(tmp_path, formats, iterations):
    """The files that both libraries write for the same records, as (ours, theirs) folders."""
    folders = tmp_path / "ours", tmp_path / "theirs"
    for module, folder in zip((loggers, sb3), folders, strict=True):
        logger = module.configure(str(folder), formats)
        for step, values in enumerate(iterations):
            for key, value in values.items():
                logger.record(key, value)
            logger.dump(step)
        logger.close()
    return folders


def test_json_equals_sb3(tmp_path):
    values = TYPICAL | {"array": np.arange(3), "one": np.ones(1), "tensor": torch.tensor(2.0), "text": 'a "b", c'}
    ours, theirs = dump_both(tmp_path, ["json"], [values, {"later": 1}])
    assert (ours / "progress.json").read_bytes() == (theirs / "progress.json").read_bytes()
    assert loggers.read_json(str(ours / "progress.json"))["time/total_timesteps"][0] == 6144


def test_csv_equals_sb3(tmp_path):
    row = {"a": 1, "b": None, "c": 'a "quoted", text', "d": np.float32(0.1), "e": True, "f": float("nan")}
    ours, theirs = dump_both(tmp_path, ["csv"], [row, {"a": 2}])

    def columns(folder):  # SB3 writes columns in the order of a set
        with open(folder / "progress.csv", newline="") as file:
            return list(csv.DictReader(file))

    assert columns(ours) == columns(theirs)
    assert (ours / "progress.csv").read_text().splitlines()[0] == "a,b,c,d,e,f"


def test_csv_header_grows_with_new_keys(tmp_path):
    logger = loggers.configure(str(tmp_path), ["csv"])
    iterations = [{"time/steps": 1}, {"time/steps": 2, "text": "two\nlines"}, {"time/steps": 3, "loss": 0.5, "kl": 0.1}]
    for values in iterations:
        for key, value in values.items():
            logger.record(key, value)
        logger.dump()
    logger.close()
    expected = 'time/steps,text,loss,kl\n1,,,\n2,"two\nlines",,\n3,,0.5,0.1\n'
    assert (tmp_path / "progress.csv").read_text() == expected
    frame = loggers.read_csv(str(tmp_path / "progress.csv"))
    assert frame["time/steps"].tolist() == [1, 2, 3]
    assert frame["text"][1] == "two\nlines"
    assert frame["loss"].isna().tolist() == [True, True, False]


def test_csv_keeps_keys_lists_and_tensors_in_their_columns(tmp_path):
    values = {"a, b": [1, 2], 'say "x"': torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "two\nlines": (1, "x"), "last": 5}
    for first in (True, False):  # the second time goes on with the file
        writer = CSVOutputFormat(str(tmp_path / "progress.csv"), resume=not first)
        assert writer.keys == ([] if first else list(values))
        writer.write(values if first else {**values, "new, later": "1,2"}, {})
        writer.close()
    with open(tmp_path / "progress.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    told = {key: str(value) for key, value in values.items()}
    assert rows == [{**told, "new, later": ""}, {**told, "new, later": "1,2"}]


def test_log_file_holds_table_and_messages(tmp_path):
    ours, theirs = dump_both(tmp_path, ["log"], [TYPICAL])
    ours_text, theirs_text = (ours / "log.txt").read_text(), (theirs / "log.txt").read_text()
    assert ours_text.splitlines()[0] == f"Logging to {ours}"
    assert ours_text.splitlines()[1:] == theirs_text.splitlines()[1:]


def test_tensorboard_events(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = loggers.configure(str(tmp_path), ["tensorboard"])
    for step in (10, 20):
        logger.record("train/loss", step / 10)
        logger.record("train/hidden", 1.0, exclude="tensorboard")
        logger.record("note", "a text")
        logger.record("weights", torch.arange(4.0))
        logger.record("picture", loggers.Image(np.zeros((4, 4, 3), np.uint8), "HWC"))
        logger.record("hyper", loggers.HParam({"lr": 0.1}, {"train/loss": 0.0}))
        logger.dump(step)
    logger.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(10, 1.0), (20, 2.0)]
    tags = events.Tags()
    assert tags["scalars"] == ["train/loss"]
    assert tags["histograms"] == ["weights"]
    assert tags["images"] == ["picture"]
    assert "note/text_summary" in tags["tensors"]
    with pytest.raises(ValueError, match="closed"):
        logger.output_formats[0].write({"a": 1}, {})


def test_tensorboard_figure_is_closed(tmp_path):
    from matplotlib import pyplot

    figure = pyplot.figure()
    logger = loggers.configure(str(tmp_path), ["tensorboard"])
    logger.record("figure", loggers.Figure(figure, close=True))
    logger.dump(1)
    logger.close()
    assert not pyplot.fignum_exists(figure.number)


@pytest.mark.parametrize("name", ["stdout", "log", "json", "csv"])
@pytest.mark.parametrize(
    "value",
    [
        loggers.Video(torch.zeros(1, 2, 3, 4, 4), 30),
        loggers.Image(np.zeros((2, 2)), "HW"),
        loggers.HParam({"lr": 0.1}, {"a": 1.0}),
        loggers.Figure(None, close=False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_media_only_fit_tensorboard(tmp_path, name, value):
    logger = loggers.configure(str(tmp_path), [name])
    logger.record("media", value)
    with pytest.raises(loggers.FormatUnsupportedError, match=f"{name}.*exclude="):
        logger.dump()
    logger.record("media", value, exclude=("stdout", "log", "json", "csv"))
    logger.record("a", 1)
    logger.dump()
    logger.close()


def test_hyperparameters_without_metrics():
    with pytest.raises(ValueError, match="metric_dict is empty"):
        loggers.HParam({"lr": 0.1}, {})


def test_missing_tensorboard_names_the_install_command(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'proximo\[tensorboard\]'"):
        loggers.configure_logger(0, str(tmp_path / "runs"), "PPO")
    assert not (tmp_path / "runs").exists()


def test_record_mean_equals_sb3():
    ours, theirs = loggers.Logger(None, []), sb3.Logger(None, [])
    for logger in (ours, theirs):
        logger.record("a", 100.0)
        for value in (1.0, 2.0, None, 6.0):
            logger.record_mean("a", value, exclude="csv")
    assert ours.name_to_value["a"] == pytest.approx(theirs.name_to_value["a"]) == pytest.approx(3.0)
    assert ours.name_to_count == theirs.name_to_count
    assert ours.name_to_excluded == theirs.name_to_excluded == {"a": ("csv",)}


def test_disabled_does_not_write_and_nothing_is_written_twice():
    file = io.StringIO()
    logger = loggers.Logger(None, [loggers.HumanOutputFormat(file)])
    logger.record("a", 1.0)
    logger.set_level(loggers.DISABLED)
    logger.dump()
    assert file.getvalue() == ""
    logger.set_level(loggers.INFO)
    logger.dump()
    assert "| a | 1" in file.getvalue()
    assert logger.name_to_value["a"] == 1.0  # for callbacks, until it is recorded again
    logger.record_mean("b", 5.0)
    logger.dump()
    assert file.getvalue().count("| a |") == file.getvalue().count("| b |") == 1
    logger.record_mean("b", 7.0)
    assert logger.name_to_value["b"] == 7.0  # a mean since the last dump


def test_callbacks_read_the_latest_losses():
    seen = []

    class Reader(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_end(self):
            seen.append(self.logger.name_to_value.get("train/loss"))

    PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, n_epochs=1, seed=0).learn(64, Reader())
    assert seen[0] is None
    assert len(set(seen[1:])) == 3
    assert all(np.isfinite(seen[1:]))


@pytest.mark.parametrize(
    ("level", "expected"),
    [(loggers.DEBUG, "dbg inf wrn err"), (loggers.WARN, "wrn err"), (loggers.ERROR, "err"), (loggers.DISABLED, "")],
)
def test_levels(level, expected):
    file = io.StringIO()
    logger = loggers.Logger(None, [loggers.HumanOutputFormat(file)])
    logger.set_level(level)
    logger.debug("dbg")
    logger.info("inf")
    logger.warn("wrn")
    logger.error("err")
    assert file.getvalue().split() == expected.split()


def test_configure_makes_the_folder_and_says_so(tmp_path, capsys):
    logger = loggers.configure(tmp_path / "deep" / "folder", ["stdout", "csv", "json", "log"])
    assert logger.get_dir() == logger.dir == str(tmp_path / "deep" / "folder")
    assert capsys.readouterr().out == f"Logging to {logger.dir}\n"
    assert sorted(os.listdir(logger.dir)) == ["log.txt", "progress.csv", "progress.json"]
    logger.close()


def test_configure_from_environment_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path / "logs"))
    monkeypatch.setenv("SB3_LOG_FORMAT", "json")
    loggers.configure().close()
    assert os.listdir(tmp_path / "logs") == ["progress.json"]


@pytest.mark.parametrize("formats", [[""], [], ["stdout"]])
def test_a_logger_without_files_makes_its_folder_only_when_asked(formats, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("SB3_LOGDIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    logger = loggers.configure(None, formats)
    assert os.listdir(tmp_path) == []
    assert capsys.readouterr().out == ""
    assert os.path.isdir(logger.dir)
    assert logger.get_dir() == logger.dir


def test_unknown_format_is_named_with_near_matches(tmp_path):
    with pytest.raises(ValueError, match="'jsn' is no log format; did you mean 'json'"):
        loggers.configure(str(tmp_path), ["jsn"])


@pytest.mark.parametrize("formats", [["csv"], ["stdout"], ["tensorboard"]])
def test_folder_below_a_file_is_refused_with_advice(tmp_path, formats):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match=r"cannot write logs into .*choose a folder"):
        loggers.configure(str(tmp_path / "file" / "logs"), formats)


def test_file_that_cannot_be_opened_is_refused_with_advice(tmp_path):
    (tmp_path / "progress.csv").mkdir()
    with pytest.raises(IsADirectoryError, match=r"cannot write logs into .*choose a folder"):
        loggers.configure(str(tmp_path), ["csv"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_is_refused_with_advice(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=r"cannot write logs into .*choose a folder"):
        loggers.configure(str(tmp_path), ["csv"])


def test_run_folders_are_numbered(tmp_path):
    def run_name(reset):
        logger = loggers.configure_logger(0, str(tmp_path), "PPO", reset_num_timesteps=reset)
        logger.close()
        return os.path.basename(logger.dir)

    assert [run_name(True), run_name(True), run_name(False), run_name(True)] == ["PPO_1", "PPO_2", "PPO_2", "PPO_3"]


def test_latest_run_id_equals_sb3(tmp_path):
    for name in ("PPO_1", "PPO_9", "PPO_10", "PPO_x", "PPO_two_3", "A2C_20", "PPO", "PPO_[1]_4", "_7"):
        (tmp_path / name).mkdir()
    for name in ("PPO", "PPO_two", "A2C", "", "missing", "PPO_[1]"):
        assert loggers.get_latest_run_id(str(tmp_path), name) == sb3_utils.get_latest_run_id(str(tmp_path), name)
    assert loggers.get_latest_run_id(str(tmp_path), "PPO") == 10
    assert loggers.get_latest_run_id(str(tmp_path / "nowhere"), "PPO") == 0


@pytest.mark.parametrize("verbose", [0, 1])
@pytest.mark.parametrize("tensorboard", [False, True])
def test_configure_logger_chooses_the_formats_of_sb3(tmp_path, verbose, tensorboard):
    def kinds(configure_logger, folder):
        logger = configure_logger(verbose, str(folder) if tensorboard else None, "PPO")
        logger.close()
        return [type(output).__name__ for output in logger.output_formats]

    assert kinds(loggers.configure_logger, tmp_path / "a") == kinds(sb3_utils.configure_logger, tmp_path / "b")


def test_import_is_light():
    heavy = "tensorboard pandas matplotlib rich scipy gymnasium"
    code = f"import sys, proximo.training.loggers; print([name for name in '{heavy}'.split() if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_own_formats_work_as_in_sb3():
    class Keep(loggers.KVWriter):
        def __init__(self):
            self.seen = []

        def write(self, key_values, key_excluded, step=0):
            self.seen.append((dict(key_values), dict(key_excluded), step))

        def close(self):
            self.seen.append("closed")

    keep = Keep()
    logger = loggers.Logger(None, [keep])
    logger.record("a", 1, exclude="csv")
    logger.record("b", 2)
    logger.dump(7)
    logger.info("not for a writer of values")
    logger.close()
    assert keep.seen == [({"a": 1, "b": 2}, {"a": ("csv",), "b": ("",)}, 7), "closed"]
    assert json.dumps(keep.seen[0][0]) == '{"a": 1, "b": 2}'
