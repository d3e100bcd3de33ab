"""Tuning finds what it is for: from bad values on Pendulum-v1 to values that are better beyond doubt."""

from __future__ import annotations

import pytest

from benchmarks.tuning import search, summary

pytestmark = pytest.mark.slow


def test_from_bad_values_to_better_ones_beyond_doubt(tmp_path):
    study = search(tmp_path, jobs=2)
    found = summary(study)
    _, _, start_high = found["start"]["interval"]
    _, low, _ = found["best"]["interval"]
    assert len(found["best"]["returns"]) == len(found["start"]["returns"]) == 5
    assert low > start_high, (found["start"], found["best"])
    steps = found["steps"]
    assert steps["trained"] < min(steps["from_scratch"], steps["all_to_the_end"])
    for job in study.jobs():  # every seed went on from its checkpoint: one run folder each, no step twice
        assert len(list(job.folder.glob("*/config.toml"))) == len(job.steps[0])
