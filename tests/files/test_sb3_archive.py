"""Reading the zips of Stable-Baselines3: what is data, what is code, what belongs there."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from typing import Any

import pytest
import stable_baselines3
import torch

import proximo.agents.ppo  # noqa: F401 - registers the classes that files may name
from proximo.errors import ModelFileError
from proximo.files.sb3_archive import is_sb3_archive, read_sb3_archive
from proximo.functional.schedules import LinearSchedule


@pytest.fixture(scope="module")
def model() -> Any:
    schedule = stable_baselines3.common.utils.LinearSchedule(1e-3, 1e-4, 0.5)
    return stable_baselines3.PPO(
        "MlpPolicy",
        "Pendulum-v1",
        learning_rate=lambda progress: 1e-3 * progress,
        clip_range=schedule,
        n_steps=16,
        batch_size=16,
        n_epochs=1,
        policy_kwargs={"net_arch": [8], "activation_fn": torch.nn.ReLU},
        device="cpu",
    ).learn(16)


@pytest.fixture(scope="module")
def content(model: Any) -> bytes:
    stream = io.BytesIO()
    model.save(stream)
    return stream.getvalue()


def rewritten(content: bytes, **members: bytes | None) -> io.BytesIO:
    """The zip with some members replaced (``data``, ``policy_pth``, …), left out when None."""
    named = {name.replace("_pth", ".pth"): data for name, data in members.items()}
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in dict.fromkeys([*old.namelist(), *named]):
            data = named[name] if name in named else old.read(name)
            if data is not None:
                new.writestr(name, data)
    return stream


def test_values_weights_and_origin(model: Any, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("loads", "load", "Unpickler"):
        monkeypatch.setattr(pickle, name, None)
    monkeypatch.setattr(torch, "load", None)
    archive = read_sb3_archive(io.BytesIO(content))
    fields = archive.fields(archive.data)
    assert fields["observation_space"] == model.observation_space
    assert fields["policy_kwargs"] == {"net_arch": [8], "activation_fn": torch.nn.ReLU}
    assert fields["clip_range"].value_schedule == LinearSchedule(1e-3, 1e-4, 0.5)
    assert "learning_rate" not in fields
    assert archive.needs["learning_rate"].startswith("the function ")
    assert archive.version == stable_baselines3.__version__
    assert "PyTorch" in archive.system
    for name, weight in model.policy.state_dict().items():
        assert torch.equal(archive.policy[name], weight)
    assert archive.members["policy.pth"] > 0


def test_recognition(content: bytes) -> None:
    assert is_sb3_archive(io.BytesIO(content))
    assert not is_sb3_archive(io.BytesIO(b"hello"))
    assert not is_sb3_archive(io.BytesIO(content[:1000]))
    stream = io.BytesIO()
    zipfile.ZipFile(stream, "w").writestr("manifest.json", b"{}")
    assert not is_sb3_archive(stream)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"data": b"[]"}, "'data' is a list"),
        ({"data": b"{"}, "not valid JSON"),
        ({"data": b'{"a":' + b"[" * 50 + b"]" * 50 + b"}"}, "nested deeper than 32"),
        ({"data": b'{"a":"' + b"x" * 2**24 + b'"}'}, "the budget is"),
        ({"policy_pth": None}, "needs 'data' and 'policy.pth'"),
        ({"data": None}, "needs 'data' and 'policy.pth'"),
        ({"policy_pth": b"junk"}, r"policy\.pth: not a zip"),
        ({"policy_pth": pickle.dumps({"w": 1})}, r"policy\.pth: this is a pickle"),
        ({"actor.optimizer_pth": b"x"}, "off-policy"),
        ({"readme": b"x"}, "is not of this format"),
    ],
)
def test_what_does_not_belong_is_refused(content: bytes, members: dict[str, bytes | None], message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        read_sb3_archive(rewritten(content, **members))


def test_missing_optimiser_and_texts_are_no_obstacle_to_reading(content: bytes) -> None:
    archive = read_sb3_archive(rewritten(content, **{"policy.optimizer_pth": None, "system_info.txt": None}))
    assert (archive.optimizer, archive.system) == ({}, "")
    changed = json.dumps({**archive.data, "learning_rate": 1e-3}).encode()
    again = read_sb3_archive(rewritten(content, data=changed))
    assert again.fields(["learning_rate", "absent"]) == {"learning_rate": 1e-3}
