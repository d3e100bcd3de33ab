"""Checkpoints of PPG, which hold the rollouts of a phase: written and read without a copy of them all in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from proximo import PPG
from proximo.errors import ModelFileError
from proximo.files.archive import read_archive, verify_archive, write_archive
from proximo.files.zips import Budgets
from proximo.rollout.available_memory import available_memory
from proximo.training.checkpoints import CheckpointFolder

SCRIPT = Path(__file__).with_name("large_checkpoint.py")
SLACK = 80_000_000  # bytes: what the interpreter and PyTorch take along the way


def check(folder: Path, *scale: int) -> dict[str, int]:
    """Save, verify and load a phase; by how many bytes each went above its base."""
    command = [sys.executable, str(SCRIPT), str(folder), *map(str, scale)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    outcome = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert outcome.returncode == 0, outcome.stderr
    tensor, saving, verifying, loading = map(int, outcome.stdout.split())
    assert saving < SLACK
    assert verifying < SLACK
    assert loading < tensor + SLACK
    size = next(folder.glob("*.zip")).stat().st_size
    return {"tensor": tensor, "file": size, "saving": saving, "verifying": verifying, "loading": loading}


def test_saving_and_loading_a_phase_takes_at_most_one_tensor(tmp_path: Path) -> None:
    found = check(tmp_path, 4, 64, 64)  # 201 MB
    assert found["file"] > 200_000_000


@pytest.mark.slow
def test_a_phase_at_the_papers_scale(tmp_path: Path, tally: Any) -> None:
    """64 environments × 256 steps × 32 rollouts of 64×64×3."""
    free = available_memory()
    if free is not None and free < 15e9:
        pytest.skip(f"needs 15 GB of memory, {free / 1e9:.1f} GB are free")
    with tally.case("checkpoint of 6.4 GB, saved, verified and resumed"):
        found = check(tmp_path, 32, 256, 64)
        print(found)
        assert found["file"] > 6_400_000_000


def test_the_budget_is_a_parameter(tmp_path: Path) -> None:
    network = {"net_arch": [256, 256]}
    model = PPG("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, policy_kwargs=network, backend="torch")
    model.learn(16)
    model.save_checkpoint(tmp_path / "model_16_steps.zip")
    size = (tmp_path / "model_16_steps.zip").stat().st_size
    with pytest.raises(
        ModelFileError, match=rf"it holds {size} bytes, the budget is 1000; .*larger max_bytes.*--max-ch"
    ):
        PPG.load(tmp_path / "model_16_steps.zip", max_bytes=1000 - 256 * 1024 if size < 256 * 1024 else 1000)
    assert PPG.load(tmp_path / "model_16_steps.zip", max_bytes=size).num_timesteps == 16
    assert CheckpointFolder(tmp_path, max_bytes=size).newest().name == "model_16_steps.zip"


def test_what_is_written_piece_by_piece_is_what_the_package_writes(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    import zipfile

    chance = torch.Generator().manual_seed(0)
    types = (torch.float32, torch.int64, torch.uint8, torch.bool, torch.bfloat16, torch.float16, torch.int16)
    tensors = {
        f"é {number}": torch.randint(0, 2, (number, 3), generator=chance).to(kind) for number, kind in enumerate(types)
    }
    tensors["transposed"] = torch.arange(12.0).reshape(3, 4).T
    tensors["scalar"] = torch.tensor(3.5, dtype=torch.float64)
    path = write_archive(tmp_path / "m.zip", {"a": 1}, {"policy": tensors})
    assert path is not None
    with zipfile.ZipFile(path) as archive:
        written = archive.read("policy.safetensors")
    assert written == safetensors.save({name: tensor.contiguous() for name, tensor in tensors.items()})
    _, groups = read_archive(path)
    assert all(torch.equal(groups["policy"][name], tensor) for name, tensor in tensors.items())
    verify_archive(path)


def test_a_byte_between_the_members_is_noticed(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "m.zip", {"a": 1}, {"policy": {"w": torch.zeros(2**20)}})
    assert path is not None
    data = path.read_bytes()
    for place in (10, len(data) - 20):  # the time of a member, the comment's surroundings
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(ModelFileError):
            verify_archive(path, Budgets())
    path.write_bytes(data + b"x")
    with pytest.raises(ModelFileError):
        verify_archive(path)
    path.write_bytes(data)
    verify_archive(path)
