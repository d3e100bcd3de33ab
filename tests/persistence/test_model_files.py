"""Save and load: the same predictions, the same next update, and what a loaded model may change."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from family import FAMILY, Member
from proximo import PPO, evaluate, make_vec_env
from proximo.envs import VecNormalize
from proximo.envs.testing.environments import FakeImageEnv, SimpleMultiObsEnv
from proximo.errors import ModelFileError
from proximo.functional.schedules import LinearSchedule
from proximo.networks.encoders import BaseFeaturesExtractor

SMALL: dict[str, Any] = {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "seed": 3}


@pytest.fixture
def trained() -> PPO:
    return PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL).learn(128)


def weights(model: PPO) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.policy.state_dict().items()}


def assert_equal_weights(first: PPO, second: PPO) -> None:
    for (name, value), (other_name, other) in zip(weights(first).items(), weights(second).items(), strict=True):
        assert name == other_name
        assert torch.equal(value, other), name


def ppo(policy: str, environment: Any, **arguments: Any) -> Member:
    return Member(PPO, policy, environment, SMALL | arguments)


RMSPROP = {"optimizer_class": torch.optim.RMSprop, "optimizer_kwargs": {"alpha": 0.9}}
CASES: dict[str, Member] = FAMILY | {
    "discrete": ppo("MlpPolicy", "CartPole-v1"),
    "box": ppo("MlpPolicy", "Pendulum-v1", policy_kwargs={"log_std_init": -0.5, "activation_fn": nn.ReLU}),
    "torch backend": ppo("MlpPolicy", "CartPole-v1", backend="torch"),
    "other optimizer": ppo("MlpPolicy", "CartPole-v1", policy_kwargs=RMSPROP),
    "schedule": ppo("MlpPolicy", "CartPole-v1", learning_rate=LinearSchedule(1e-3, 1e-4, 1.0), clip_range_vf=0.3),
    "image": ppo("CnnPolicy", lambda: FakeImageEnv(screen_height=36, screen_width=36)),
    "dict": ppo("MultiInputPolicy", SimpleMultiObsEnv),
}


def copy_rollout(source: Any, target: Any) -> None:
    """All that an update reads."""
    for name in ("actions", "values", "log_probs", "advantages", "returns", "episode_starts"):
        getattr(target, name)[:] = getattr(source, name)
    if isinstance(source.observations, dict):
        for key, value in source.observations.items():
            target.observations[key][:] = value
    else:
        target.observations[:] = source.observations
    target.action_masks, target.states = source.action_masks, source.states


@pytest.mark.parametrize("member", CASES.values(), ids=CASES)
def test_loaded_model_predicts_and_trains_the_same(tmp_path: Path, member: Member) -> None:
    model = member.make()
    member.learn(model, 64)
    model.save(tmp_path / "model")
    loaded = member.algorithm.load(tmp_path / "model.zip", env=member.env())
    assert_equal_weights(model, loaded)
    assert loaded.num_timesteps == model.num_timesteps
    assert loaded.backend == model.backend
    assert loaded._n_updates == model._n_updates

    observations = model.get_env().reset()
    actions, state = model.predict(observations, deterministic=True)
    again, other_state = loaded.predict(observations, deterministic=True)
    assert str(actions) == str(again)
    assert str(state) == str(other_state)

    # the very next update on the same rollout: optimiser moments, counters and the order of minibatches came along
    copy_rollout(model.rollout_buffer.rollout, loaded.rollout_buffer.rollout)
    loaded.rollout_buffer.full = True
    before = weights(model)
    model.train()
    loaded.train()
    assert_equal_weights(model, loaded)
    assert any(not torch.equal(value, before[name]) for name, value in weights(model).items())
    member.learn(loaded, 32)  # and it goes on in environments of its own


def test_every_hyperparameter_comes_back(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {
        "learning_rate": 1e-3,
        "n_steps": 64,
        "batch_size": 16,
        "n_epochs": 3,
        "gamma": 0.9,
        "gae_lambda": 0.8,
        "normalize_advantage": False,
        "ent_coef": 0.01,
        "vf_coef": 0.7,
        "max_grad_norm": 0.3,
        "target_kl": 0.05,
        "tensorboard_log": "somewhere",
        "verbose": 0,
        "seed": 5,
        "policy_kwargs": {"net_arch": {"pi": [8], "vf": [8, 4]}, "activation_fn": nn.ELU},
    }
    model = PPO("MlpPolicy", "CartPole-v1", clip_range=0.1, clip_range_vf=0.4, stats_window_size=7, **chosen)
    model.save(tmp_path / "model.zip")
    loaded = PPO.load(tmp_path / "model.zip", tensorboard_log="somewhere")  # a file does not say where learn() writes
    assert {name: getattr(loaded, name) for name in chosen} == chosen
    assert loaded.clip_range(0.5) == 0.1
    assert loaded.clip_range_vf(0.5) == 0.4
    assert loaded.ep_info_buffer.maxlen == 7
    assert loaded.observation_space == model.observation_space
    assert loaded.action_space == model.action_space
    assert loaded.policy.mlp_extractor.latent_dim_vf == 4


def test_without_environment_it_predicts_and_says_why_it_cannot_train(tmp_path: Path, trained: PPO) -> None:
    trained.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model")
    assert loaded.get_env() is None
    action, _ = loaded.predict(np.zeros(4))
    assert int(action) in (0, 1)
    with pytest.raises(ValueError, match=r"no environment; call set_env\(env\)"):
        loaded.learn(64)
    loaded.set_env(make_vec_env("CartPole-v1", n_envs=2))
    loaded.learn(64)
    assert loaded.num_timesteps == 64


def test_another_number_of_environments(tmp_path: Path, trained: PPO) -> None:
    trained.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model", env=make_vec_env("CartPole-v1", n_envs=5))
    assert loaded.n_envs == 5
    loaded.learn(160)
    assert loaded.rollout_buffer.rewards.shape == (32, 5)


def test_streams_and_paths(tmp_path: Path, trained: PPO) -> None:
    stream = io.BytesIO()
    trained.save(stream)
    stream.seek(0)
    assert_equal_weights(trained, PPO.load(stream))
    trained.save(str(tmp_path / "folder" / "model"))
    assert (tmp_path / "folder" / "model.zip").is_file()
    assert_equal_weights(trained, PPO.load(tmp_path / "folder" / "model"))


def test_overrides(tmp_path: Path, trained: PPO) -> None:
    trained.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model", learning_rate=0.5, n_epochs=1, gamma=0.5, verbose=0, seed=99)
    assert (loaded.n_epochs, loaded.gamma, loaded.seed) == (1, 0.5, 99)
    assert loaded.lr_schedule(1.0) == 0.5
    with pytest.raises(TypeError, match=r"learning_rat.*did you mean 'learning_rate'"):
        PPO.load(tmp_path / "model", learning_rat=0.5)
    with pytest.raises(ValueError, match="policy_kwargs"):
        PPO.load(tmp_path / "model", policy_kwargs={"net_arch": [8]})
    with pytest.raises(ValueError, match="gamma is 7"):
        PPO.load(tmp_path / "model", gamma=7)


def test_lambda_needs_custom_objects(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", "CartPole-v1", learning_rate=lambda progress: 1e-3 * progress, **SMALL)
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"learning_rate(.|\n)*custom_objects"):
        PPO.load(tmp_path / "model")
    # as scripts that load published models do; unknown names are passed over
    objects = {"learning_rate": 0.0, "lr_schedule": lambda _: 0.0, "clip_range": lambda _: 0.0}
    loaded = PPO.load(tmp_path / "model", custom_objects=objects)
    assert loaded.lr_schedule(0.5) == 0.0
    assert loaded.clip_range(0.5) == 0.0


class Halver(BaseFeaturesExtractor):
    def __init__(self, observation_space: spaces.Space[Any]) -> None:
        super().__init__(observation_space, features_dim=4)
        self.scale = nn.Parameter(torch.full((4,), 0.5))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return observations * self.scale


def test_own_class_needs_custom_objects(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"features_extractor_class": Halver}, **SMALL).learn(64)
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"features_extractor_class(.|\n)*custom_objects"):
        PPO.load(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model", custom_objects={"policy_kwargs.features_extractor_class": Halver})
    assert_equal_weights(model, loaded)
    assert torch.equal(loaded.policy.features_extractor.scale, model.policy.features_extractor.scale)


def test_normalizer_statistics_travel_with_the_model(tmp_path: Path) -> None:
    env = VecNormalize(make_vec_env("CartPole-v1", n_envs=2, seed=0))
    PPO("MlpPolicy", env, **SMALL).learn(64).save(tmp_path / "model")
    fresh = VecNormalize(make_vec_env("CartPole-v1", n_envs=2))
    PPO.load(tmp_path / "model", env=fresh)
    assert np.array_equal(fresh.obs_rms.mean, env.obs_rms.mean)
    assert fresh.obs_rms.count == env.obs_rms.count > 60
    used = VecNormalize(make_vec_env("CartPole-v1", n_envs=2, seed=1))
    used.reset()
    before = used.obs_rms.mean.copy()
    PPO.load(tmp_path / "model", env=used)
    assert np.array_equal(used.obs_rms.mean, before)  # statistics of its own are left alone


def test_normalizer_statistics_wait_for_an_environment(tmp_path: Path) -> None:
    env = VecNormalize(make_vec_env("CartPole-v1", n_envs=2, seed=0))
    PPO("MlpPolicy", env, **SMALL).learn(64).save(tmp_path / "model")
    PPO.load(tmp_path / "model").save(tmp_path / "again")
    model = PPO.load(tmp_path / "again")
    fresh = VecNormalize(make_vec_env("CartPole-v1", n_envs=2), training=False)
    with pytest.warns(UserWarning, match="this environment shows them as they are"):
        evaluate(model, make_vec_env("CartPole-v1"), 1)
    with pytest.warns(UserWarning, match="this environment has no statistics to normalise by"):
        evaluate(model, fresh, 1)
    model.set_env(fresh)
    assert np.array_equal(fresh.obs_rms.var, env.obs_rms.var)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(model, fresh, 1)


def test_include_and_exclude(tmp_path: Path, trained: PPO) -> None:
    trained.ent_coef = trained.vf_coef = 0.25
    trained.save(tmp_path / "model", include=["vf_coef"], exclude=["tensorboard_log", "ent_coef", "vf_coef"])
    loaded = PPO.load(tmp_path / "model")
    assert loaded.vf_coef == 0.25  # what is included goes before what is excluded
    assert loaded.ent_coef == 0.0  # not in the file: the default


def test_subclass_loads_as_its_own_class(tmp_path: Path) -> None:
    class MyPPO(PPO):
        pass

    MyPPO("MlpPolicy", "CartPole-v1", **SMALL).save(tmp_path / "model")
    assert type(MyPPO.load(tmp_path / "model")) is MyPPO


def test_policy_alone(tmp_path: Path, trained: PPO) -> None:
    trained.policy.save(tmp_path / "policy.zip")
    loaded = type(trained.policy).load(tmp_path / "policy.zip")
    observations = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    expected, _ = trained.predict(observations, deterministic=True)
    assert np.array_equal(loaded.predict(observations, deterministic=True)[0], expected)
    with pytest.raises(ModelFileError, match="policy"):
        PPO.load(tmp_path / "policy.zip")


def test_set_parameters_from_file_and_dictionary(tmp_path: Path, trained: PPO) -> None:
    trained.save(tmp_path / "model")
    other = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2), n_steps=32, batch_size=32, seed=8)
    other.set_parameters(str(tmp_path / "model"))
    assert_equal_weights(trained, other)
    other.set_parameters({"policy": {"value_net.bias": torch.tensor([5.0])}}, exact_match=False)
    assert other.policy.value_net.bias.item() == 5.0
    assert other.runtime.backend.values(np.zeros((1, 4), np.float32)) == pytest.approx(
        float(other.policy.predict_values(torch.zeros(1, 4)).detach()), abs=1e-5
    )
    with pytest.raises(ValueError, match=r"policy\.optimizer.*exact_match=False"):
        other.set_parameters({"policy": trained.get_parameters()["policy"]})
    with pytest.raises(ValueError, match=r"unknown.*'critic'"):
        other.set_parameters({"critic": {}}, exact_match=False)
    with pytest.raises(ValueError, match="do not fit"):
        other.set_parameters({"policy": {"value_net.bias": torch.zeros(3)}}, exact_match=False)


def test_set_env(trained: PPO) -> None:
    other = make_vec_env("CartPole-v1", n_envs=2, seed=5)
    trained.set_env(other)
    assert trained.get_env() is other
    trained.learn(64, reset_num_timesteps=False)
    assert trained.num_timesteps == 192
    with pytest.raises(ValueError, match="2 environments, this one has 3"):
        trained.set_env(make_vec_env("CartPole-v1", n_envs=3))


def test_saving_leaves_nothing_partial(tmp_path: Path, trained: PPO) -> None:
    trained.save(tmp_path / "model")
    before = (tmp_path / "model.zip").read_bytes()
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(OSError, match="cannot write"):
        trained.save(blocked / "model")
    assert (tmp_path / "model.zip").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "model.zip"]


def test_env_as_id_or_gymnasium_env(tmp_path: Path) -> None:
    PPO("MlpPolicy", "CartPole-v1", **SMALL).save(tmp_path / "model")
    for env in ("CartPole-v1", gym.make("CartPole-v1")):
        assert PPO.load(tmp_path / "model", env=env).learn(32).num_timesteps == 32
