"""Many ``learn()`` calls in one process leave nothing behind: no memory, open files, processes or shared memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Tally

SCRIPT = """
import gc, json, os, sys
from pathlib import Path
from proximo import A2C, PPO, RecurrentPPO, make_vec_env
from proximo.envs import SubprocVecEnv

def numbers():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "memory": pages * os.sysconf("SC_PAGE_SIZE"),
        "files": len(os.listdir("/proc/self/fd")),
        "shared": len([name for name in os.listdir("/dev/shm") if name.startswith(f"proximo-{os.getpid()}-")]),
        "children": len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
    }

def learn_once(kind, workers):
    env = make_vec_env("CartPole-v1", n_envs=2, seed=0, vec_env_cls=SubprocVecEnv if workers else None)
    if kind == "recurrent":
        small = {"lstm_hidden_size": 8}
        model = RecurrentPPO("MlpLstmPolicy", env, n_steps=16, batch_size=16, n_epochs=1, policy_kwargs=small)
    elif kind == "A2C":
        model = A2C("MlpPolicy", env, n_steps=16)
    else:
        model = PPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, backend=kind)
    model.learn(64)
    env.close()

if __name__ == "__main__":
    calls, kinds = int(sys.argv[1]), ("fused", "torch", "A2C", "recurrent")
    warm = 32  # caches of torch, numba and gymnasium fill up
    for call in range(warm):
        learn_once(kinds[call % 4], workers=call % 16 == 15)
    before = numbers()
    for call in range(calls):
        learn_once(kinds[call % 4], workers=call % 16 == 15)
    print(json.dumps([before, numbers()]))
"""


def check_leaks(folder: Path, calls: int) -> None:
    script = folder / "learn_often.py"
    script.write_text(SCRIPT)
    finished = subprocess.run(
        [sys.executable, str(script), str(calls)], cwd=folder, capture_output=True, text=True, check=True
    )
    before, after = json.loads(finished.stdout.splitlines()[-1])
    assert after["memory"] < 1.01 * before["memory"], (before, after)
    assert after["files"] <= before["files"], (before, after)
    assert after["shared"] == before["shared"] == 0
    assert after["children"] <= before["children"]
    assert [path.name for path in folder.iterdir()] == [script.name]


def test_a_few_calls_leave_nothing(tmp_path: Path, tally: Tally) -> None:
    with tally.case("learn() calls without a leak", count=16):
        check_leaks(tmp_path, 16)


@pytest.mark.slow
def test_two_hundred_calls_leave_nothing(tmp_path: Path, tally: Tally) -> None:
    with tally.case("learn() calls without a leak", count=200):
        check_leaks(tmp_path, 200)
