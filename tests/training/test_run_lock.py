"""The lock of a run's folder: one writer, refused by name, taken over from the dead, on any file system."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from proximo import PPO
from proximo.files import atomic
from proximo.files.atomic import remove_leftovers, replacing
from proximo.files.owner import Owner
from proximo.training import run_lock
from proximo.training.run_lock import RunLock, RunLockedError

HOLD = """
import sys, time
from proximo.training.run_lock import RunLock
with RunLock(sys.argv[1]) as lock:
    print("held", flush=True)
    while True:
        time.sleep(0.02)
        lock.check()
"""


@pytest.fixture
def holder(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_writer_is_refused_with_the_holders_name(holder, tmp_path):
    with pytest.raises(
        RunLockedError, match=rf"is being written by process {holder.pid} on .+, since \d{{4}}-.*--take"
    ):
        RunLock(tmp_path).acquire()
    holder.kill()
    holder.wait()
    with RunLock(tmp_path) as lock:
        lock.check()
        assert len(list(tmp_path.glob("writer.*.lock"))) == 1
    assert not list(tmp_path.iterdir())


def test_a_living_holder_is_made_to_stop_and_waited_for(holder, tmp_path):
    lock = RunLock(tmp_path, take_over=True)
    with pytest.warns(UserWarning, match=f"taking over from process {holder.pid} .*waiting"):
        lock.acquire()
    assert holder.wait(timeout=60) == 1
    assert f"taken over by process {os.getpid()} on " in holder.stderr.read()
    lock.release()
    assert not list(tmp_path.iterdir())


def test_a_number_that_another_process_has_by_now_is_no_holder(tmp_path):
    here = Owner.this_process()
    earlier = Owner(here.place, here.pid, str(int(here.started) - 1))
    (tmp_path / "writer.7.lock").write_text(json.dumps({"owner": earlier.name, "since": "2026-01-01T00:00:00"}))
    with RunLock(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["writer.8.lock"]


def test_a_holder_on_another_host_lives_as_long_as_its_heart_beats(tmp_path, monkeypatch):
    path = tmp_path / "writer.1.lock"
    path.write_text(json.dumps({"owner": "node7~abc~1~4242~99", "since": "2026-01-01T00:00:00"}))
    with pytest.raises(RunLockedError, match="process 4242 on node7, since 2026-01-01"):
        RunLock(tmp_path).acquire()
    old = path.stat().st_mtime - run_lock.SECONDS_UNTIL_DEAD - 10
    os.utime(path, (old, old))
    with RunLock(tmp_path):
        assert not path.exists()


def test_the_heart_beats_while_the_lock_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(run_lock, "SECONDS_BETWEEN_BEATS", 0.01)
    with RunLock(tmp_path):
        (path,) = tmp_path.glob("writer.*.lock")
        os.utime(path, (1.0, 1.0))
        deadline = time.monotonic() + 60
        while path.stat().st_mtime < 2.0:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_lock_file_that_is_still_being_written_counts(tmp_path):
    (tmp_path / "writer.1.lock").write_text('{"own')
    with pytest.raises(RunLockedError, match="has not told its name yet"):
        RunLock(tmp_path).acquire()


def test_a_training_that_lost_its_lock_ends_before_it_saves_again(tmp_path):
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, n_epochs=1)
    with RunLock(tmp_path) as lock:
        (tmp_path / "writer.2.lock").write_text(json.dumps({"owner": "node7~abc~1~4242~99", "since": "now"}))
        with pytest.raises(RunLockedError, match="taken over by process 4242 on node7"):
            model.learn(64, callback=lock.callback())
    assert model.num_timesteps == 0
    assert [path.name for path in tmp_path.iterdir()] == ["writer.2.lock"]


# ----------------------------------------------------------------------------------------------- temporary files


def test_temporary_files_of_others_are_left_alone(tmp_path):
    here = Owner.this_process()
    dead = Owner(here.place, here.pid, str(int(here.started) - 1))
    elsewhere = Owner("node7~abc~1", 4242, "99")
    names = {who: f".proximo-{owner.name}~00.tmp" for who, owner in (("dead", dead), ("elsewhere", elsewhere))}
    names["nobody"] = ".proximo-0123456789abcdef.tmp"
    for name in names.values():
        (tmp_path / name).touch()
    with replacing(tmp_path / "file") as stream:
        stream.write(b"1")
        remove_leftovers(tmp_path)
        left = {path.name for path in tmp_path.iterdir()}
        (mine,) = atomic._being_written
        assert left == {mine, names["elsewhere"], names["nobody"]}
    assert (tmp_path / "file").read_bytes() == b"1"
    remove_leftovers(tmp_path, gone=elsewhere)
    assert {path.name for path in tmp_path.iterdir()} == {"file", names["nobody"]}


def test_an_owner_is_known_by_its_name():
    owner = Owner.this_process()
    assert Owner.from_name(owner.name) == owner
    assert not owner.is_dead
    child = os.fork()
    if child == 0:
        os._exit(0 if Owner.this_process() != owner else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sleeper = subprocess.Popen(["sleep", "60"])
    other = Owner(owner.place, sleeper.pid, "")
    assert not other.is_dead
    sleeper.send_signal(signal.SIGKILL)
    sleeper.wait()
    assert other.is_dead
    assert Owner.from_name("0123456789abcdef") is None
