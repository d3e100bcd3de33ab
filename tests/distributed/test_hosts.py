"""Two hosts: network namespaces joined by a virtual cable, which may be bad, or cut."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_launching import SHORT, TRAIN, assert_same_run, only_run, run

from benchmarks.network import ADDRESSES, Hosts

pytestmark = pytest.mark.slow


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    obstacle = made.make()
    try:
        if obstacle is not None:
            pytest.skip(obstacle)
        yield made
    finally:
        made.remove()


def train_on_both(hosts: Hosts, folder: Path) -> None:
    agents = [
        hosts.start(
            side, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-id", "hosts",
            "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{ADDRESSES[0]}:29400", "--local-addr", ADDRESSES[side],
            "--rdzv-conf", f"is_host={1 - side}",
            "-m", "proximo", "train", *TRAIN, *SHORT, "--runs-dir", str(folder / f"host-{side}"),
        )
        for side in range(2)
    ]  # fmt: skip
    outputs = [agent.communicate(timeout=300)[0] for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], "\n---\n".join(outputs)


def test_two_hosts_train_what_one_process_does(hosts, alone, tmp_path):
    train_on_both(hosts, tmp_path)
    folders = [folder for folder in (tmp_path / "host-0", tmp_path / "host-1") if folder.exists()]
    assert len(folders) == 1  # the host of rank 0, whichever that is
    assert_same_run(only_run(folders[0]), alone)


def test_lost_packets_and_delay_change_nothing_but_time(hosts, alone, tmp_path):
    if (obstacle := hosts.spoil(loss=0.01, delay=0.02)) is not None:
        pytest.skip(obstacle)
    train_on_both(hosts, tmp_path)
    assert hosts.bad_cable.lost > 0
    (folder,) = [folder for folder in (tmp_path / "host-0", tmp_path / "host-1") if folder.exists()]
    assert_same_run(only_run(folder), alone)


def test_a_cut_cable_ends_both_sides_and_the_run_goes_on(hosts, tmp_path):
    long = [*TRAIN, "--steps", "20480", "--n-epochs", "2", "--checkpoint-every", "256", "--eval-episodes", "0"]
    sides = [
        hosts.start(
            rank, "-m", "proximo", "train", *long, "--runs-dir", str(tmp_path / "cut"),
            RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR=ADDRESSES[0], MASTER_PORT="29500", PROXIMO_TIMEOUT="20",
        )
        for rank in range(2)
    ]  # fmt: skip
    deadline = time.monotonic() + 240
    while not list(tmp_path.glob("cut/*/checkpoints/model_1024_steps.zip")) and time.monotonic() < deadline:
        time.sleep(0.01)
    hosts.cut()
    outputs = [side.communicate(timeout=240)[0] for side in sides]
    for rank, (side, text) in enumerate(zip(sides, outputs, strict=True)):
        assert side.returncode not in (0, None), text
        assert f"rank {1 - rank} has not come to" in text or "another process has gone" in text, text
    (tmp_path / "whole").mkdir()
    cut = only_run(tmp_path / "cut")
    resumed = run(sys.executable, "-m", "proximo", "train", "--resume", str(cut))
    assert resumed.returncode == 0, resumed.stderr
    whole = run(sys.executable, "-m", "proximo", "train", *long, "--runs-dir", str(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    assert_same_run(cut, only_run(tmp_path / "whole"))
