"""Which number of threads an update takes, and that no thread is left waiting."""

from __future__ import annotations

import os
import time

import pytest

from proximo.backends.fused.structures import Role
from proximo.backends.fused.threads import PROBE_EVERY, RoleThreads


def test_both_ways_are_tried_and_the_faster_one_stays():
    threads = RoleThreads()
    threads.choices = [1, 2]
    calls: list[tuple[int, int]] = []

    def work(first: int, last: int) -> tuple[int, int]:
        calls.append((first, last))
        if first != last:
            time.sleep(0.02)  # alone, the work takes longer
        return 0, 4

    assert [threads.run(work) for _ in range(4)] == [(0, 4)] * 4
    alone, actor, critic = (Role.ACTOR, Role.CRITIC), (Role.ACTOR, Role.ACTOR), (Role.CRITIC, Role.CRITIC)
    assert calls[0] == alone
    assert sorted(calls[1:]) == sorted([actor, critic] * 3)


def test_the_slower_way_is_probed_now_and_then():
    threads = RoleThreads()
    threads.choices = [1, 2]
    threads._seconds = {1: 1.0, 2: 3.0}
    chosen = [threads._choose() for _ in range(2 * PROBE_EVERY)]
    assert chosen.count(2) == 2
    assert chosen[PROBE_EVERY - 1] == 2


def test_one_interruption_does_not_change_the_choice_but_lasting_load_does():
    threads = RoleThreads()
    threads.choices = [1, 2]
    threads._seconds = {1: 1.5, 2: 1.0}
    threads._remember(2, 50.0)
    assert threads._choose() == 2
    for _ in range(5):
        threads._remember(2, 50.0)
    assert threads._choose() == 1


def test_a_number_that_is_asked_for_is_kept():
    for number in (1, 2):
        assert RoleThreads(number).choices == [number]


def test_an_interrupted_actor_releases_the_critic():
    threads = RoleThreads(2)

    def work(first: int, last: int) -> tuple[int, int]:
        if first == Role.ACTOR:
            raise KeyboardInterrupt
        while threads.barrier[2, 0] == 0:
            time.sleep(0.001)
        return 3, 0

    with pytest.raises(KeyboardInterrupt):
        threads.run(work)
    assert threads.run(lambda first, last: (0, 7)) == (0, 7)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_starts_a_thread_of_its_own():
    threads = RoleThreads(2)

    def work(first: int, last: int) -> tuple[int, int]:
        if first == Role.CRITIC:
            threads.barrier[1, 0] = 1
            return 0, 1
        deadline = time.monotonic() + 10
        while threads.barrier[1, 0] == 0 and time.monotonic() < deadline:
            time.sleep(0.001)
        return int(threads.barrier[1, 0]), 1

    assert threads.run(work) == (1, 1)
    child = os.fork()
    if child == 0:
        met, _ = threads._run_two(work) if threads._process != os.getpid() else (0, 0)
        os._exit(42 if met else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
