"""Every algorithm goes on from a checkpoint exactly as if it had not been interrupted."""

from __future__ import annotations

import csv
import json
import random

import numpy as np
import pytest
import torch

from family import FAMILY, Member, weights
from proximo import DAAC, PPG, TRPO
from proximo.training.checkpoints import CheckpointFolder, PeriodicCheckpoints
from proximo.training.loggers import configure

CLOCK = ("time/fps", "time/time_elapsed")
MEMBERS = {
    **FAMILY,
    "daac": Member(DAAC, "MlpPolicy", "Pendulum-v1", {"n_steps": 16, "batch_size": 16, "value_frequency": 2}),
    "trpo": Member(TRPO, "MlpPolicy", "Pendulum-v1", {"n_steps": 16, "batch_size": 16}),
    "ppg in the middle of a phase": Member(
        PPG, "MlpPolicy", "CartPole-v1", {"n_steps": 16, "batch_size": 16, "rollouts_per_phase": 4, "aux_epochs": 1}
    ),
}


def logged(folder):
    """Rows and lines of the log, without what the clock wrote into it."""
    rows = list(csv.DictReader((folder / "progress.csv").open()))
    lines = [json.loads(line) for line in (folder / "progress.json").read_text().splitlines()]
    return [
        [{key: value for key, value in row.items() if key not in CLOCK} for row in table] for table in (rows, lines)
    ]


@pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS)
def test_every_member_of_the_family_resumes_exactly(member, tmp_path):
    boundary = not isinstance(member.environment, str)  # the corridors know nothing of states

    def checkpoints():
        return PeriodicCheckpoints(tmp_path / "checkpoints", every_steps=96, keep_last=9, boundary=boundary)

    options = {"use_masking": member.masks, "log_interval": 2}
    straight = member.make()
    straight.set_logger(configure(tmp_path / "log", ["csv", "json"]))
    straight.learn(320, callback=checkpoints(), **options)
    straight.logger.close()
    expected = weights(straight), logged(tmp_path / "log"), straight.generator.random()
    folder = CheckpointFolder(tmp_path / "checkpoints")
    # one more at the end, unless checkpoints are boundaries, which have their places
    assert [folder.steps_of(path) for path in folder.all()] == [0, 96, 192, 288] + ([] if boundary else [320])
    random.seed(99)
    np.random.seed(99)
    torch.manual_seed(99)
    again = member.algorithm.load(folder.of(192), env=member.env())
    again.set_logger(configure(tmp_path / "log", ["csv", "json"], resume=True))
    again.resume(callback=checkpoints(), **options)
    again.logger.close()
    assert torch.equal(weights(again), expected[0])
    assert logged(tmp_path / "log") == expected[1]
    assert again.generator.random() == expected[2]
