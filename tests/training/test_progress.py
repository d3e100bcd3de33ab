"""The progress display: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from proximo.training.progress import ProgressDisplay


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def terminal(width=100):
    return Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)


def text_of(console):
    """What was sent to the terminal, without control sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())


def test_plain_lines_come_now_and_then_without_control_characters(clock):
    console = Console(file=io.StringIO(), force_terminal=False, width=40)
    display = ProgressDisplay(10_000, console=console, clock=clock)
    display.start()
    for second in range(1, 26):
        clock.now = 100.0 + second
        display.update(100 * second, mean_return=1.5 * second)
    display.stop()
    lines = console.file.getvalue().splitlines()
    assert lines == [
        "training 1,000 of 10,000 steps (10 %)  100 steps/s  0:10 elapsed  1:30 left  return 15.0",
        "training 2,000 of 10,000 steps (20 %)  100 steps/s  0:20 elapsed  1:20 left  return 30.0",
        "training 2,500 of 10,000 steps (25 %)  100 steps/s  0:25 elapsed  1:15 left  return 37.5",
    ]
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", console.file.getvalue())


def test_steps_from_before_are_progress_but_no_speed(clock):
    elsewhere = Console(file=io.StringIO(), force_terminal=False, width=40)
    console = terminal()
    for shown in (elsewhere, console):
        with ProgressDisplay(10_000, console=shown, clock=clock, steps_before=6000) as display:
            clock.now += 10
            display.update(7000)
    text = "100 steps/s  0:10 elapsed  0:30 left"
    assert f"training 7,000 of 10,000 steps (70 %)  {text}" in elsewhere.file.getvalue()
    assert re.search(r"━╸ +60 % ", text_of(console))
    assert re.search(rf"━╸ +70 % {text}", text_of(console))


def test_a_transient_display_counts_in_its_unit_and_leaves_nothing(clock):
    elsewhere = Console(file=io.StringIO(), force_terminal=False, width=40)
    console = terminal()
    for shown in (elsewhere, console):
        with ProgressDisplay(20, "evaluating", shown, clock, unit="episodes", transient=True) as display:
            clock.now += 11
            display.update(11)
    assert elsewhere.file.getvalue() == ""
    assert re.search(r"evaluating ━+╸ +55 % 1 episodes/s  0:11 elapsed  0:09 left", text_of(console))
    assert console.file.getvalue().endswith("\x1b[1A\x1b[2K")  # the line is erased


def test_live_bar_shows_percent_speed_times_and_return(clock):
    console = terminal()
    with ProgressDisplay(1000, "learning", console=console, clock=clock) as display:
        clock.now += 5
        display.update(250, mean_return=12.34)
        assert re.search(r"learning ━+ +25 % 50 steps/s  0:05 elapsed  0:15 left  return 12.3", text_of(console))
        clock.now += 5
        display.update(1024)  # rollouts may overshoot
    assert "100 % 102 steps/s  0:10 elapsed" in text_of(console)
    assert console.file.getvalue().endswith("\x1b[?25h")  # the cursor is shown again


def test_many_updates_are_few_drawings_and_the_last_is_shown(clock):
    console = terminal()
    with ProgressDisplay(1000, console=console, clock=clock) as display:
        for steps in range(1, 1001):
            clock.now += 1 / 1024
            display.update(steps)
    assert 10 <= text_of(console).count("steps/s") <= 13
    assert "100 % 1,024 steps/s" in text_of(console)


@pytest.mark.parametrize("width", [60, 80])
def test_live_bar_keeps_to_one_line_on_a_narrow_terminal(clock, width):
    console = terminal(width)
    display = ProgressDisplay(1000, console=console, clock=clock)
    display.start()
    clock.now += 5
    before = console.file.tell()
    display.update(250, mean_return=12.34)
    assert "\n" not in console.file.getvalue()[before:]
    display.stop()


def test_prints_go_above_the_live_bar(clock, capsys):
    console = terminal()
    with ProgressDisplay(1000, console=console, clock=clock):
        print("a table")
    assert "a table" in text_of(console)
    assert capsys.readouterr().out == ""


def test_a_dropped_display_gives_the_cursor_back(clock):
    console = terminal()
    display = ProgressDisplay(1000, console=console, clock=clock)
    display.start()
    assert "\x1b[?25l" in console.file.getvalue()
    del display
    assert console.file.getvalue().endswith("\x1b[?25h")


def test_dumb_terminal_gets_plain_lines(clock, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with ProgressDisplay(100, console=console, clock=clock) as display:
        clock.now += 1
        display.update(50)
    assert console.file.getvalue() == "training 50 of 100 steps (50 %)  50 steps/s  0:01 elapsed  0:01 left\n"


def test_speed_is_that_of_the_last_updates(clock):
    console = Console(file=io.StringIO(), force_terminal=False)
    display = ProgressDisplay(10**6, console=console, clock=clock)
    display.start()
    clock.now += 1000  # a slow start
    for _ in range(ProgressDisplay._UPDATES_FOR_SPEED):
        clock.now += 0.1
        display.update(display._steps + 50)
    assert display.status().startswith("500 steps/s")
