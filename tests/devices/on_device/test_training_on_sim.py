"""Every algorithm trains on an accelerator to the parameters that it reaches on the CPU, and goes on from files."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dictionary_env import DictionaryEnv
from sim_device import own_generator, replaced_parameters
from torch import Tensor, nn

from proximo import A2C, DAAC, PPG, PPO, TRPO, MaskablePPO, RecurrentPPO, make_vec_env
from proximo.agents.on_policy import set_random_seed
from proximo.envs.testing.environments import FakeImageEnv, InvalidActionEnvDiscrete
from proximo.networks.actor_critic import get_device
from proximo.networks.encoders import FlattenExtractor
from proximo.rollout.storage import RolloutBuffer
from proximo.training.checkpoints import CheckpointFolder, PeriodicCheckpoints

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2}
PHASE = {"n_steps": 16, "batch_size": 16, "rollouts_per_phase": 2, "aux_epochs": 2, "num_aux_mini_batch": 2}
MEMORY: dict[str, Any] = {"policy_kwargs": {"lstm_hidden_size": 8, "net_arch": [8]}}
IMAGES = partial(FakeImageEnv, screen_height=36, screen_width=36, n_channels=1)
SMALL_CNN: dict[str, Any] = {"policy_kwargs": {"features_extractor_kwargs": {"cnn_output_dim": 16}}}
NARROW: dict[str, Any] = {"policy_kwargs": {"features_extractor_kwargs": {"features_dim": 16}}}

Case = tuple[type[Any], str, Any, dict[str, Any]]
CASES: dict[str, Case] = {
    "ppo": (PPO, "MlpPolicy", "CartPole-v1", SMALL),
    "ppo, continuous": (PPO, "MlpPolicy", "Pendulum-v1", SMALL | {"clip_range_vf": 0.2, "target_kl": 0.5}),
    "ppo, noise": (PPO, "MlpPolicy", "Pendulum-v1", SMALL | {"use_sde": True, "sde_sample_freq": 4}),
    "ppo, images": (PPO, "CnnPolicy", IMAGES, SMALL | NARROW),
    "ppo, dictionary": (PPO, "MultiInputPolicy", DictionaryEnv, SMALL | SMALL_CNN),
    "a2c": (A2C, "MlpPolicy", "CartPole-v1", {"n_steps": 16}),
    "a2c with Adam": (A2C, "MlpPolicy", "Pendulum-v1", {"n_steps": 16, "use_rms_prop": False}),
    "ppg": (PPG, "MlpPolicy", "CartPole-v1", PHASE),
    "daac": (DAAC, "MlpPolicy", "CartPole-v1", {"n_steps": 16, "batch_size": 16, "value_epochs": 2}),
    "trpo": (TRPO, "MlpPolicy", "CartPole-v1", {"n_steps": 16, "batch_size": 16, "n_critic_updates": 2}),
    "lstm": (RecurrentPPO, "MlpLstmPolicy", "CartPole-v1", SMALL | MEMORY | {"n_steps": 8}),
    "gru": (RecurrentPPO, "MlpGruPolicy", "CartPole-v1", SMALL | MEMORY | {"n_steps": 8}),
    "masks": (MaskablePPO, "MlpPolicy", InvalidActionEnvDiscrete, SMALL),
}


def make(case: Case, device: str, **options: Any) -> Any:
    algorithm, policy, environment, arguments = case
    env = make_vec_env(environment, n_envs=2, seed=1)
    return algorithm(policy, env, seed=3, device=device, backend="torch", **arguments | options)


def weights(model: Any) -> Tensor:
    return torch.cat([value.flatten().cpu() for value in model.policy.state_dict().values()])


def assert_same(one: Any, other: Any) -> None:
    torch.testing.assert_close(weights(one), weights(other), atol=1e-6, rtol=0.0)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_training_reaches_the_parameters_of_the_cpu(case: Case) -> None:
    steps = 6 * case[3]["n_steps"]  # three updates with two environments
    expected = make(case, "cpu").learn(steps)
    model = make(case, "sim")
    before = weights(model)
    model.learn(steps)
    assert {parameter.device.type for parameter in model.policy.parameters()} == {"sim"}
    assert not torch.allclose(weights(model), before, atol=1e-4)
    assert_same(model, expected)
    observation = model.get_env().reset()
    actions = [trained.predict(observation, deterministic=True)[0] for trained in (model, expected)]
    np.testing.assert_allclose(*actions, atol=1e-5)


def test_the_optimizer_steps_in_one_fused_call() -> None:
    model = make(CASES["ppo"], "sim").learn(32)
    assert [group["fused"] for group in model.policy.optimizer.param_groups] == [True]
    states = model.policy.optimizer.state.values()
    assert {tensor.device.type for state in states for tensor in state.values()} == {"sim"}


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": False}, {"foreach": False}, {"amsgrad": True}])
def test_an_optimizer_with_other_options(options: dict[str, Any]) -> None:
    kwargs = {"policy_kwargs": {"optimizer_kwargs": options}}
    expected, model = (make(CASES["ppo"], device, **kwargs).learn(32) for device in ("cpu", "sim"))
    assert_same(model, expected)


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
def test_another_optimizer(optimizer: type[torch.optim.Optimizer]) -> None:
    kwargs = {"policy_kwargs": {"optimizer_class": optimizer}}
    expected, model = (make(CASES["ppo"], device, **kwargs).learn(32) for device in ("cpu", "sim"))
    assert_same(model, expected)


@pytest.mark.parametrize("name", ["ppo", "a2c", "ppg", "trpo"])
def test_a_device_for_which_parameters_are_made_again(name: str) -> None:
    """An optimiser of the old ones would train nothing."""
    with replaced_parameters():
        expected, model = (make(CASES[name], device).learn(64) for device in ("cpu", "sim"))
    assert_same(model, expected)


class OwnBuffer(RolloutBuffer):
    """A user's class, which is asked for its minibatches."""


def test_a_buffer_of_ones_own() -> None:
    options = {"rollout_buffer_class": OwnBuffer}
    expected, model = (make(CASES["ppo"], device, **options).learn(64) for device in ("cpu", "sim"))
    assert_same(model, expected)


def test_moving_a_policy_between_two_trainings() -> None:
    expected = make(CASES["ppo"], "cpu").learn(32).learn(32, reset_num_timesteps=False)
    model = make(CASES["ppo"], "cpu").learn(32)
    model.policy.to("sim")
    model.learn(32, reset_num_timesteps=False)
    assert model.policy.device.type == "sim"
    assert model.policy.optimizer.state_dict()["state"][0]["step"] == 8  # two epochs of two minibatches, twice
    assert_same(model, expected)


def test_auto_is_the_accelerator() -> None:
    assert get_device("auto").type == "sim"
    assert get_device("cpu").type == "cpu"
    assert PPO("MlpPolicy", "CartPole-v1", **SMALL).policy.device.type == "sim"


def test_a_seed_repeats_the_draws_of_the_device() -> None:
    with own_generator():
        set_random_seed(5)
        first = torch.rand(4, device="sim").cpu()
        set_random_seed(5)
        assert torch.equal(torch.rand(4, device="sim").cpu(), first)


# -- files


def loading(case: Case) -> AbstractContextManager[None]:
    """PyTorch's recurrent layers hold weak references, for which it cannot load weights by swapping."""
    return replaced_parameters() if case[0] is RecurrentPPO else nullcontext()


@pytest.mark.parametrize("name", ["ppo", "ppg", "lstm", "ppo, images", "a2c"])
def test_a_file_holds_no_device(name: str, tmp_path: Path) -> None:
    model = make(CASES[name], "sim").learn(64)
    model.save(tmp_path / "model.zip")
    for device in ("cpu", "sim"):
        env = make_vec_env(CASES[name][2], n_envs=2, seed=1)
        with loading(CASES[name]):
            loaded = CASES[name][0].load(tmp_path / "model.zip", env=env, device=device)
        assert loaded.policy.device.type == device
        assert torch.equal(weights(loaded), weights(model))
        saved, found = (part.policy.optimizer.state_dict()["state"] for part in (model, loaded))
        assert {key: value["step"].item() for key, value in saved.items()} == {
            key: value["step"].item() for key, value in found.items()
        }
        loaded.set_random_seed(7)
        loaded.learn(32)
        assert not torch.equal(weights(loaded), weights(model))


def test_a_model_of_the_cpu_goes_on_on_the_device(tmp_path: Path) -> None:
    make(CASES["ppo"], "cpu").learn(64).save(tmp_path / "model.zip")
    trained = []
    for device in ("cpu", "sim"):
        env = make_vec_env("CartPole-v1", n_envs=2, seed=1)
        model = PPO.load(tmp_path / "model.zip", env=env, device=device)
        model.set_random_seed(7)
        trained.append(model.learn(64))
    assert_same(*trained)


class WithDropout(FlattenExtractor):
    """Draws from the device's generator in every update."""

    def __init__(self, observation_space: Any) -> None:
        super().__init__(observation_space)
        self.dropout = nn.Dropout(0.3)

    def forward(self, observations: Tensor) -> Tensor:
        return self.dropout(super().forward(observations))


DROPOUT: dict[str, Any] = {"policy_kwargs": {"features_extractor_class": WithDropout}}
RESUMED: dict[str, Case] = {
    "ppo, dropout": (PPO, "MlpPolicy", "CartPole-v1", SMALL | DROPOUT),
    "ppg in the middle of a phase": (PPG, "MlpPolicy", "CartPole-v1", PHASE | {"rollouts_per_phase": 4}),
    "lstm": CASES["lstm"],
    "trpo": CASES["trpo"],
}


@pytest.mark.parametrize("case", RESUMED.values(), ids=RESUMED)
def test_a_resumed_training_equals_the_uninterrupted_one(case: Case, tmp_path: Path) -> None:
    with own_generator():
        whole = make(case, "sim").learn(128, callback=PeriodicCheckpoints(tmp_path, every_steps=64, keep_last=9))
        expected, next_draw = weights(whole), torch.rand(3, device="sim").cpu()
    with own_generator(seed=99):
        torch.manual_seed(99)
        env = make_vec_env(case[2], n_envs=2, seed=77)
        objects = {"policy_kwargs": DROPOUT["policy_kwargs"]} if DROPOUT.items() <= case[3].items() else None
        with loading(case):
            model = case[0].load(CheckpointFolder(tmp_path).of(64), env=env, device="sim", custom_objects=objects)
        model.resume()
        assert model.num_timesteps == whole.num_timesteps
        assert torch.equal(weights(model), expected)
        assert torch.equal(torch.rand(3, device="sim").cpu(), next_draw)
