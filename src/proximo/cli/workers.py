"""Where the environments of a training run: in its own process, or in worker processes, whichever will be faster."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from proximo.cores import usable_cores
from proximo.zoo import make_preset_env
from proximo.zoo.environments import steps_by_itself

if TYPE_CHECKING:
    from proximo.cli.runs import RunConfig

# estimates, of a step that goes to workers and back beyond the environments' own time, and of starting them
MESSAGE_SECONDS = 150e-6
START_SECONDS = 5.0
WORTH = 1.3  # times as fast, or it is not worth the processes
WARM_UP, STEPS, SECONDS = 5, 100, 0.2  # a timing ends after so many steps, or that time

_NO_NUMBER = re.compile(r"^$|^-\D|-v\d+$|[:/]")  # nothing, a flag, or what marks the id of an environment


class Decision(NamedTuple):
    workers: int  # 0: in the training's own process
    reason: str

    def __str__(self) -> str:
        where = "in this process" if self.workers == 0 else f"in {self.workers} worker processes"
        return f"environments {where}: {self.reason}"


def with_value(words: Sequence[str]) -> list[str]:
    """``--workers`` alone, at the end or before a flag or the id of an environment, means one for each core.

    >>> with_value(["CartPole-v1", "--workers"]), with_value(["--workers", "2"]), with_value(["--workers", "--video"])
    (['CartPole-v1', '--workers', 'cores'], ['--workers', '2'], ['--workers', 'cores', '--video'])
    >>> with_value(["--workers", "-h"]), with_value(["--workers", "-1"])
    (['--workers', 'cores', '-h'], ['--workers', '-1'])
    """
    given: list[str] = []
    for word, following in pairwise([*words, ""]):
        given.append(word)
        if word == "--workers" and _NO_NUMBER.search(following):
            given.append("cores")
    return given


def decide(config: RunConfig, environments: int, needed_for: str | None = None) -> Decision:
    """How many workers shall step so many environments; ``needed_for`` names what only works with some."""
    workers = min(usable_cores(), environments)
    if steps_by_itself(config.preset, config.env):
        if needed_for is not None:
            raise ValueError(f"{needed_for}: for worker processes, but {config.env} steps in threads of its own")
        return Decision(0, "they step in threads of their own")
    if needed_for is not None:
        return Decision(max(1, workers), f"asked for by {needed_for}")
    if workers < 2:
        return Decision(0, "there is one" if environments == 1 else "there is one core for them")
    try:
        step = seconds_of_step(config)
    except Exception as error:  # the training says where and why, and keeps the traceback
        return Decision(0, f"one failed when it was timed ({type(error).__name__})")
    return choose(step, environments, workers, config.preset.n_timesteps)


def choose(step: float, environments: int, workers: int, steps: int) -> Decision:
    """Compare a round of all environments here with one of the largest share and a message.

    >>> choose(10e-6, 8, 2, 10**6)
    Decision(workers=0, reason='a step takes 10 µs')
    >>> choose(1e-3, 8, 2, 10**6)
    Decision(workers=2, reason='a step takes 1,000 µs')
    >>> choose(1e-3, 8, 2, 1000)
    Decision(workers=0, reason='a step takes 1,000 µs, but the training is short')
    """
    here = environments * step
    there = -(-environments // workers) * step + MESSAGE_SECONDS
    reason = f"a step takes {1e6 * step:,.0f} µs"
    if here < WORTH * there:
        return Decision(0, reason)
    if steps / environments * (here - there) < START_SECONDS:
        return Decision(0, f"{reason}, but the training is short")
    return Decision(workers, reason)


def seconds_of_step(config: RunConfig) -> float:
    """The mean over a few steps of one environment of the run's, resets included."""
    preset = config.preset.changed(normalize=False, frame_stack=1)
    with as_if_nothing_was_drawn(), closing(make_preset_env(preset, config.env, n_envs=1, seed=config.seed)) as env:
        env.action_space.seed(config.seed)
        env.reset()
        for limit in (WARM_UP, STEPS):
            steps, start = 0, time.perf_counter()
            while steps < limit and (steps == 0 or time.perf_counter() - start < SECONDS):
                env.step_arrays([env.action_space.sample()])
                steps += 1
            seconds = (time.perf_counter() - start) / steps
    return seconds


@contextmanager
def as_if_nothing_was_drawn() -> Iterator[None]:
    """Leave the global generators as they were: a training must not depend on whether a timing came before it."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
