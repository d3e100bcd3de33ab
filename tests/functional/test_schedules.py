"""Schedules give Stable-Baselines3's values, compare by content, and refuse what no hyperparameter can be."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common import utils as sb3

from proximo.functional.schedules import ConstantSchedule, FloatSchedule, LinearSchedule, check_schedule_value
from proximo.sb3.common.utils import constant_fn, get_linear_fn, get_schedule_fn

unit = st.floats(0.0, 1.0)


@given(start=unit, end=unit, end_fraction=st.floats(0.01, 2.0), progress_remaining=st.floats(-0.5, 1.0))
def test_linear_schedule_equals_sb3(start, end, end_fraction, progress_remaining):
    ours = LinearSchedule(start, end, end_fraction)
    theirs = sb3.LinearSchedule(start, end, end_fraction)
    assert ours(progress_remaining) == pytest.approx(theirs(progress_remaining), rel=1e-9, abs=1e-12)


def test_linear_schedule_with_no_way_to_go_is_its_end():
    assert LinearSchedule(1.0, 0.1, 0.0)(1.0) == 0.1


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (ConstantSchedule(0.5), sb3.ConstantSchedule(0.5)),
        (LinearSchedule(1.0, 0.0, 0.5), sb3.LinearSchedule(1.0, 0.0, 0.5)),
        (FloatSchedule(3e-4), sb3.FloatSchedule(3e-4)),
        (FloatSchedule(LinearSchedule(1, 0, 1)), sb3.FloatSchedule(sb3.LinearSchedule(1, 0, 1))),
    ],
)
def test_printed_as_in_sb3(ours, theirs):
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("number", [1, 0.25, np.float32(0.25), np.int64(2), torch.tensor(0.25)])
def test_float_schedule_of_a_number_is_a_python_float(number):
    value = FloatSchedule(number)(0.3)
    assert type(value) is float
    assert value == float(number)


@pytest.mark.parametrize("convert", [np.float32, np.float64, torch.tensor, lambda value: np.array(value)])
def test_float_schedule_of_a_function_is_a_python_float(convert):
    value = FloatSchedule(lambda progress: convert(progress / 4))(0.5)
    assert type(value) is float
    assert value == 0.125


def test_float_schedule_is_not_wrapped_twice():
    inner = LinearSchedule(1.0, 0.0, 1.0)
    assert FloatSchedule(FloatSchedule(inner)).value_schedule is inner


def test_schedules_compare_by_content_and_survive_pickling():
    schedule = FloatSchedule(LinearSchedule(1.0, 0.0, 0.5))
    copy = pickle.loads(pickle.dumps(schedule))
    assert copy == schedule
    assert hash(copy) == hash(schedule)
    assert copy(0.75) == 0.5
    assert schedule != FloatSchedule(LinearSchedule(1.0, 0.0, 0.6))
    assert ConstantSchedule(1.0) != LinearSchedule(1.0, 1.0, 1.0)


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf, -math.inf])
def test_a_bad_constant_is_refused_when_made(value):
    with pytest.raises(ValueError, match="finite number of at least 0"):
        FloatSchedule(value)


@pytest.mark.parametrize("value", [-0.25, math.nan, math.inf])
def test_a_bad_value_of_a_function_names_value_and_progress(value):
    schedule = FloatSchedule(lambda progress: value)
    with pytest.raises(ValueError, match=rf"gives {value} at progress_remaining=0.125"):
        schedule(0.125)


@pytest.mark.parametrize("value", ["3e-4", None, [1.0, 2.0]])
def test_neither_number_nor_function(value):
    with pytest.raises(TypeError, match="a number or a function of progress_remaining"):
        FloatSchedule(value)


def test_check_schedule_value():
    check_schedule_value("clip_range", 0.0)
    check_schedule_value("clip_range", 0.2, minimum=0.2)
    with pytest.raises(ValueError, match=r"clip_range is 0.1; expected a finite number of at least 0.2"):
        check_schedule_value("clip_range", 0.1, minimum=0.2)


def test_older_names():
    assert get_schedule_fn(0.5)(0.1) == 0.5
    assert get_linear_fn(1.0, 0.0, 0.5)(0.75) == 0.5
    assert constant_fn(7.0)(0.0) == 7.0
