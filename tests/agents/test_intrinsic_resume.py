"""A training with an intrinsic reward goes on exactly from a file: the reward's networks and memories are in it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from proximo import A2C, PPG, PPO, TRPO, MaskablePPO, RecurrentPPO, make_vec_env
from proximo.errors import ModelFileError
from proximo.exploration import E3B, ICM, NGU, RE3, RIDE, RND, Disagreement, Fabric, IntrinsicReward, PseudoCounts
from proximo.training.checkpoints import CheckpointFolder, PeriodicCheckpoints

STEPS = 64
SMALL: dict[str, Any] = {"n_steps": 32, "batch_size": 32, "n_epochs": 2}
REWARDS: dict[str, Any] = {
    **{kind.__name__: kind for kind in (RE3, RND, ICM, NGU, RIDE, E3B, PseudoCounts, Disagreement)},
    "Fabric": lambda: Fabric(RND(), E3B(), own_value=True, discount=0.9),
    "RND with a value of its own": lambda: RND(own_value=True, kappa=0.1, gamma=0.9),
}
ALGORITHMS: dict[str, Any] = {
    "A2C": (A2C, "MlpPolicy", {"n_steps": 32}),
    "PPG": (PPG, "MlpPolicy", {"n_steps": 32, "batch_size": 64, "rollouts_per_phase": 4}),
    "TRPO": (TRPO, "MlpPolicy", {"n_steps": 32, "batch_size": 64}),
    "RecurrentPPO": (RecurrentPPO, "MlpLstmPolicy", {**SMALL, "policy_kwargs": {"lstm_hidden_size": 8}}),
}


class Enough(PeriodicCheckpoints):
    """Ends the training after half of it."""

    def _between_iterations(self) -> bool:
        return super()._between_iterations() and self.num_timesteps < 2 * STEPS


def environments(seed: int = 1) -> Any:
    return make_vec_env("CartPole-v1", n_envs=2, seed=seed)


def weights(model: Any) -> torch.Tensor:
    return torch.cat([value.flatten() for value in model.policy.state_dict().values()])


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    else:
        assert (one == other).all() if hasattr(one, "shape") else one == other


def check_resume(algorithm: Any, policy: str, arguments: dict[str, Any], make_reward: Any, folder: Path) -> None:
    def make() -> Any:
        return algorithm(policy, environments(), **arguments, seed=2, device="cpu", intrinsic_reward=make_reward())

    whole = make().learn(4 * STEPS)
    make().learn(4 * STEPS, callback=Enough(folder, every_steps=STEPS))
    torch.manual_seed(99)  # whatever a new reward begins with is replaced
    model = algorithm.load(CheckpointFolder(folder).newest(), env=environments(seed=77), device="cpu")
    assert model.num_timesteps == 2 * STEPS
    model.resume()
    assert model.num_timesteps == whole.num_timesteps == 4 * STEPS
    assert torch.equal(weights(model), weights(whole))
    assert_same(model.intrinsic_reward.state_dict(), whole.intrinsic_reward.state_dict())


@pytest.mark.parametrize("name", REWARDS)
def test_a_resumed_training_equals_the_uninterrupted_one(name: str, tmp_path: Path) -> None:
    small = SMALL
    check_resume(PPO, "MlpPolicy", small, REWARDS[name], tmp_path)
    plain = PPO("MlpPolicy", environments(), **small, seed=2).learn(4 * STEPS)
    shaped = PPO("MlpPolicy", environments(), **small, seed=2, intrinsic_reward=REWARDS[name]()).learn(4 * STEPS)
    if shaped.policy.value_net.out_features == 1:
        assert not torch.equal(weights(shaped), weights(plain))  # the reward does something


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_resumes_with_its_intrinsic_reward(name: str, tmp_path: Path) -> None:
    check_resume(*ALGORITHMS[name], lambda: NGU(latent_dim=8), tmp_path)


@pytest.mark.parametrize("name", REWARDS)
def test_a_saved_model_keeps_its_intrinsic_reward(name: str, tmp_path: Path) -> None:
    small = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "seed": 2}
    model = PPO("MlpPolicy", environments(), **small, intrinsic_reward=REWARDS[name]()).learn(2 * STEPS)
    model.save(tmp_path / "model")
    again = PPO.load(tmp_path / "model", env=environments())
    assert type(again.intrinsic_reward) is type(model.intrinsic_reward)
    assert repr(again.intrinsic_reward) == repr(model.intrinsic_reward)
    assert repr(model.intrinsic_reward).startswith(name.split()[0] + "(")
    assert_same(again.intrinsic_reward.state_dict(), model.intrinsic_reward.state_dict())
    without = PPO.load(tmp_path / "model")  # needs no environment
    assert without.intrinsic_reward.global_step == 2


def test_a_checkpoint_without_its_training_state_keeps_the_reward(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", environments(), n_steps=32, batch_size=32, seed=2, intrinsic_reward=RND()).learn(STEPS)
    model.save_checkpoint(tmp_path / "checkpoint")
    again = PPO.load(tmp_path / "checkpoint", env=environments(), custom_objects={"training_state": None})
    assert_same(again.intrinsic_reward.state_dict(), model.intrinsic_reward.state_dict())


def test_a_reward_may_be_added_replaced_and_left_out(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", environments(), n_steps=32, batch_size=32, seed=2).learn(STEPS)
    model.save(tmp_path / "plain")
    curious = PPO.load(tmp_path / "plain", env=environments(), intrinsic_reward=RND())
    curious.learn(STEPS)
    assert curious.intrinsic_reward.global_step == 1
    curious.save(tmp_path / "curious")
    assert PPO.load(tmp_path / "curious", env=environments(), intrinsic_reward=None).intrinsic_reward is None
    curious.save(tmp_path / "without", exclude=["intrinsic_reward"])
    assert PPO.load(tmp_path / "without", env=environments()).intrinsic_reward is None


def test_another_number_of_environments_keeps_what_is_common(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", environments(), n_steps=32, batch_size=32, seed=2, intrinsic_reward=NGU()).learn(STEPS)
    model.save(tmp_path / "model")
    with pytest.warns(UserWarning, match="saved with 2 environments, here are 3"):
        again = PPO.load(tmp_path / "model", env=make_vec_env("CartPole-v1", n_envs=3, seed=1))
    assert_same(dict(again.intrinsic_reward.networks.state_dict()), dict(model.intrinsic_reward.networks.state_dict()))
    again.learn(96)


class Nothing(IntrinsicReward):
    """A class that no file knows."""

    def compute(self, samples: Any, sync: bool = True) -> torch.Tensor:
        return super().compute(samples, sync)


def test_a_reward_of_the_users_own_is_asked_for(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", environments(), n_steps=32, batch_size=32, seed=2, intrinsic_reward=Nothing()).learn(STEPS)
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"intrinsic_reward \(object of class Nothing\)"):
        PPO.load(tmp_path / "model", env=environments())
    again = PPO.load(tmp_path / "model", env=environments(), custom_objects={"intrinsic_reward": Nothing()})
    assert again.intrinsic_reward.global_step == 1


def test_a_file_cannot_ask_for_more_memory_than_it_holds(tmp_path: Path) -> None:
    model = MaskablePPO("MlpPolicy", make_vec_env("CartPole-v1"), n_steps=64, seed=2, intrinsic_reward=RND())
    model.save(tmp_path / "model.zip")
    rewritten = tmp_path / "large.zip"
    with zipfile.ZipFile(tmp_path / "model.zip") as source, zipfile.ZipFile(rewritten, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename == "manifest.json":
                manifest = json.loads(content)
                manifest["fields"]["intrinsic_reward"]["value"]["latent_dim"] = 10**11
                content = json.dumps(manifest).encode()
            target.writestr(entry, content)
    with pytest.raises(ModelFileError, match=r"RND that the file describes have \d{14} weights"):
        MaskablePPO.load(rewritten)
