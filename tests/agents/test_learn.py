"""What ``learn`` does: counting, schedules, logs, callbacks, changes while training."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from family import Member, every_member
from proximo import PPO, make_vec_env
from proximo.data import Minibatch
from proximo.rollout.storage import RolloutBuffer
from proximo.training.callbacks import BaseCallback
from proximo.training.loggers import configure

SMALL: dict[str, Any] = {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "seed": 0}
BACKENDS = pytest.mark.parametrize("backend", ["fused", "torch"])


def make_model(envs: int = 2, **arguments: Any) -> PPO:
    return PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=envs, seed=0), **(SMALL | arguments))


def weights(model: PPO) -> torch.Tensor:
    return torch.cat([value.flatten() for value in model.policy.state_dict().values()]).clone()


def rows(folder: Path) -> list[dict[str, str]]:
    with open(folder / "progress.csv", newline="") as file:
        return list(csv.DictReader(file))


class OnRollout(BaseCallback):
    """Calls a function at the end of each rollout with the number of rollouts so far."""

    def __init__(self, action: Callable[[Any, int], None]) -> None:
        super().__init__()
        self.action, self.rollouts = action, 0

    def _on_rollout_end(self) -> None:
        self.rollouts += 1
        self.action(self.model, self.rollouts)


def test_whole_rollouts_until_the_number_is_reached() -> None:
    model = make_model()
    assert model.learn(65).num_timesteps == 128
    assert model.learn(64).num_timesteps == 64
    assert model.learn(1, reset_num_timesteps=False).num_timesteps == 128


@every_member
def test_every_member_learns_in_whole_rollouts(member: Member) -> None:
    model = member.make()
    before = weights(model)
    assert member.learn(model, 33).num_timesteps == 64
    assert not torch.equal(before, weights(model))
    assert torch.isfinite(weights(model)).all()
    assert member.learn(model, 1, reset_num_timesteps=False, log_interval=None).num_timesteps == 96
    logged = {name for name in model.logger.name_to_value if name.startswith("train/")}
    assert {f"train/{member.loss}", "train/value_loss", "train/explained_variance"} <= logged
    assert all(np.isfinite(model.logger.name_to_value[name]) for name in logged), model.logger.name_to_value


@BACKENDS
def test_progress_never_falls_below_zero(backend: str) -> None:
    """100 steps take two rollouts of 64: the second ends beyond the total, and the learning rate stays at its end."""
    progress: list[float] = []

    def learning_rate(remaining: float) -> float:
        progress.append(remaining)
        return 1e-3 * remaining

    model = make_model(learning_rate=learning_rate, backend=backend)
    model.learn(100)
    assert min(progress) == 0.0
    assert model._current_progress_remaining == 0.0
    assert model.policy.optimizer.param_groups[0]["lr"] == 0.0


def test_each_iteration_is_logged_with_its_own_metrics(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    class Train(PPO):
        def train(self) -> None:
            super().train()
            seen.append(dict(self.logger.name_to_value))

    model = Train("MlpPolicy", "CartPole-v1", **SMALL)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(96)
    table = rows(tmp_path)
    assert [int(row["time/total_timesteps"]) for row in table] == [32, 64, 96]
    assert [int(row["train/n_updates"]) for row in table] == [2, 4, 6]
    for row, metrics in zip(table, seen, strict=True):
        assert float(row["train/loss"]) == pytest.approx(metrics["train/loss"])


@pytest.mark.parametrize(("log_interval", "logged"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (3, [3, 5]), (None, [])])
def test_the_last_metrics_are_written(tmp_path: Path, log_interval: int | None, logged: list[int]) -> None:
    model = make_model(envs=1)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(160, log_interval=log_interval)
    path = tmp_path / "progress.csv"
    table = rows(tmp_path) if path.exists() and path.stat().st_size else []
    assert [int(row["time/iterations"]) for row in table] == logged
    assert [int(row["train/n_updates"]) for row in table] == [2 * iteration for iteration in logged]


@BACKENDS
def test_stopping_discards_the_rollout(backend: str) -> None:
    class StopAt(BaseCallback):
        ended = False

        def _on_step(self) -> bool:
            return self.num_timesteps < 100

        def _on_training_end(self) -> None:
            self.ended = True

    model = make_model(backend=backend)
    trained: list[torch.Tensor] = []
    before = weights(model)
    stop = StopAt()
    model.learn(10_000, callback=[stop, OnRollout(lambda model, _: trained.append(weights(model)))])
    assert model.num_timesteps == 100
    assert stop.ended
    assert model._n_updates == 2  # one rollout of 64 steps was trained on, 36 steps were thrown away
    assert torch.equal(trained[0], before)
    assert not torch.equal(weights(model), before)


@every_member
def test_any_member_stops_early(member: Member) -> None:
    """At step 40 of 2 environments: one rollout of 32 was trained on, the 8 steps after it were thrown away."""

    class StopAt(BaseCallback):
        def _on_step(self) -> bool:
            return self.num_timesteps < 40

    model = member.make()
    trained: list[torch.Tensor] = []
    member.learn(model, 10_000, callback=[StopAt(), OnRollout(lambda model, _: trained.append(weights(model)))])
    assert model.num_timesteps == 40
    assert len(trained) == 1
    assert not torch.equal(trained[0], weights(model))
    member.learn(model, 32, reset_num_timesteps=False)  # and goes on from there
    assert model.num_timesteps == 72


@BACKENDS
def test_changing_coefficients_while_training(backend: str) -> None:
    """A huge entropy bonus from the second rollout on drives the policy towards the uniform one."""
    entropies: list[float] = []

    def raise_entropy(model: Any, rollout: int) -> None:
        observations = torch.as_tensor(model.rollout_buffer.observations.reshape(-1, 4))
        with torch.no_grad():
            entropies.append(float(model.policy.get_distribution(observations).entropy().mean()))
        if rollout == 1:
            model.policy.action_net.bias.data[0] = 2.0  # far from uniform
        if rollout == 4:
            model.ent_coef = 10.0

    model = make_model(backend=backend, learning_rate=0.02)
    model.learn(64 * 24, callback=OnRollout(raise_entropy))
    assert min(entropies[1:4]) < 0.6
    assert entropies[-1] > 0.68  # log 2 = 0.693 is the most that two actions have


@BACKENDS
def test_changing_the_learning_rate_while_training(backend: str) -> None:
    """As Stable-Baselines3's users do: the schedule is replaced, or the attribute together with its set-up."""

    def freeze(model: Any, rollout: int) -> None:
        if rollout == 2:
            model.learning_rate = 0.0
            model._setup_lr_schedule()

    model = make_model(backend=backend)
    history: list[torch.Tensor] = []
    model.learn(256, callback=[OnRollout(freeze), OnRollout(lambda model, _: history.append(weights(model)))])
    assert not torch.equal(history[0], history[1])
    assert torch.equal(history[1], history[2])
    assert torch.equal(history[2], history[3])
    model.lr_schedule = lambda _: 1e-3
    model.learn(64)
    assert not torch.equal(history[3], weights(model))


CHANGES = {"clip_range": 1e-4, "n_epochs": 1, "batch_size": 8, "max_grad_norm": 1e-6, "target_kl": 1e-9}


@BACKENDS
@pytest.mark.parametrize(("name", "value"), CHANGES.items(), ids=CHANGES)
def test_attributes_are_read_again_for_every_update(name: str, value: float, backend: str) -> None:
    def change(model: Any, rollout: int) -> None:
        if rollout == 1:
            setattr(model, name, value)

    plain, changed = make_model(backend=backend), make_model(backend=backend)
    plain.learn(128)
    changed.learn(128, callback=OnRollout(change))
    assert not torch.equal(weights(plain), weights(changed))


class Recorder(RolloutBuffer):
    """Counts what the training asks of a buffer."""

    def __init__(self, *args: Any, note: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.note, self.adds, self.gets = note, 0, 0

    def add(self, *args: Any, **kwargs: Any) -> None:
        self.adds += 1
        super().add(*args, **kwargs)

    def get(self, batch_size: int | None = None) -> Any:
        self.gets += 1
        for batch in super().get(batch_size):
            assert isinstance(batch, Minibatch)
            yield batch


def test_own_buffer_class_is_used() -> None:
    model = make_model(rollout_buffer_class=Recorder, rollout_buffer_kwargs={"note": "mine"})
    assert model.backend == "torch: rollout buffer is Recorder"
    before = weights(model)
    model.learn(128)
    buffer = model.rollout_buffer
    assert isinstance(buffer, Recorder)
    assert (buffer.note, buffer.adds, buffer.gets) == ("mine", 64, 4)  # 2 rollouts of 32 steps, 2 epochs each
    assert not torch.equal(before, weights(model))


@every_member
def test_own_buffer_class_serves_every_member(member: Member) -> None:
    """``add`` and ``get`` of a subclass are called, and masks and memory still reach the training."""
    model = member.make(rollout_buffer_class=Recorder)
    plain = member.make()
    before = weights(model)
    for each in (model, plain):
        np.random.seed(0)
        member.learn(each, 64)
    buffer = model.rollout_buffer
    assert buffer.adds == 32
    assert buffer.gets == 2 * (member.passes or getattr(model, "n_epochs", 1))
    assert not torch.equal(before, weights(model))
    # the first rollout is the same; the order of the minibatches is NumPy's instead of the model's own
    assert model.num_timesteps == plain.num_timesteps == 64


def test_buffer_method_that_nothing_calls_is_refused() -> None:
    class Sampler(RolloutBuffer):
        def _get_samples(self, batch_inds: Any, env: Any = None) -> Any:
            raise AssertionError

    with pytest.raises(TypeError, match=r"Sampler overrides _get_samples.*override get\(batch_size\)"):
        make_model(rollout_buffer_class=Sampler)


class CountingEnv(gym.Env[Any, Any]):
    """Observation: the number of steps since the reset; episodes of three steps, every other one cut by a limit."""

    observation_space = spaces.Box(0.0, 10.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.steps, self.episodes = 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.episodes += 1
        return np.array([0.0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        done = self.steps == 3
        limit = self.episodes % 2 == 0
        observation = np.array([float(self.steps)], np.float32)
        return observation, float(self.steps), done and not limit, done and limit, {"is_success": limit}


@BACKENDS
def test_rollout_holds_what_happened(backend: str) -> None:
    model = PPO("MlpPolicy", CountingEnv(), n_steps=8, batch_size=8, n_epochs=1, seed=0, backend=backend)
    model.learn(8)
    rollout = model.rollout_buffer.rollout
    assert rollout.observations[:, 0, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert rollout.rewards[:, 0].tolist() == [1, 2, 3, 1, 2, 3, 1, 2]
    assert rollout.episode_starts[:, 0].tolist() == [True, False, False, True, False, False, True, False]
    ends = rollout.terminated[:, 0] | rollout.truncated[:, 0]
    assert ends.tolist() == [False, False, True, False, False, True, False, False]
    assert (rollout.terminated & rollout.truncated).sum() == 0
    assert rollout.terminated.sum() == rollout.truncated.sum() == 1
    assert (rollout.bootstrap_values != 0).tolist() == rollout.truncated.tolist()
    assert list(model.ep_success_buffer).count(True) == 1
    assert [episode["r"] for episode in model.ep_info_buffer] == [6.0, 6.0]
    assert [episode["l"] for episode in model.ep_info_buffer] == [3, 3]


@BACKENDS
def test_continuous_actions_are_stored_unclipped_and_played_clipped(backend: str) -> None:
    played: list[Any] = []

    class Narrow(gym.Env[Any, Any]):
        observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        action_space = spaces.Box(-0.1, 0.2, (3,), np.float32)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            return np.zeros(2, np.float32), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            played.append(np.array(action))
            return np.zeros(2, np.float32), 0.0, False, False, {}

    model = PPO("MlpPolicy", Narrow(), n_steps=64, n_epochs=1, seed=0, backend=backend)
    model.learn(64)
    stored = model.rollout_buffer.actions[:, 0]
    assert np.abs(stored).max() > 1.0
    np.testing.assert_allclose(np.stack(played), np.clip(stored, -0.1, 0.2), rtol=1e-6)
    with torch.no_grad():
        fresh = PPO("MlpPolicy", Narrow(), n_steps=64, n_epochs=1, seed=0, backend=backend)
        _, log_prob, _ = fresh.policy.evaluate_actions(torch.zeros(64, 2), torch.as_tensor(stored))
    np.testing.assert_allclose(model.rollout_buffer.log_probs[:, 0], log_prob, atol=1e-4)


def test_environment_kinds_train_alike() -> None:
    """An id, an environment, factories, a VecEnv and gymnasium's vector environments are all taken."""
    kinds: list[Any] = [
        "CartPole-v1",
        gym.make("CartPole-v1"),
        [lambda: gym.make("CartPole-v1")],
        make_vec_env("CartPole-v1"),
        gym.make_vec("CartPole-v1", num_envs=1, vectorization_mode="sync"),
    ]
    finals = []
    for kind in kinds:
        model = PPO("MlpPolicy", kind, **SMALL).learn(64)
        assert model.num_timesteps == 64
        assert len(model.ep_info_buffer) > 0
        finals.append(weights(model))
    for other in finals[1:4]:
        assert torch.equal(finals[0], other)  # the same environment under the same seed


def test_real_stable_baselines_env_is_taken() -> None:
    from stable_baselines3.common.env_util import make_vec_env as oracle_vec_env

    env = oracle_vec_env("CartPole-v1", n_envs=2, seed=0)
    foreign = PPO("MlpPolicy", env, **SMALL).learn(128)
    own = make_model().learn(128)
    assert torch.equal(weights(foreign), weights(own))
    assert [episode["r"] for episode in foreign.ep_info_buffer] == [episode["r"] for episode in own.ep_info_buffer]


@pytest.mark.parametrize("mode", ["SAME_STEP", "DISABLED"])
def test_gymnasium_vector_envs_train_alike(mode: str) -> None:
    """Where the reset happens within the step, a gymnasium vector environment gives the rollouts of our own."""
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    factories = [lambda: gym.make("CartPole-v1")] * 2
    theirs = PPO("MlpPolicy", SyncVectorEnv(factories, autoreset_mode=AutoresetMode[mode]), **SMALL).learn(128)
    own = make_model().learn(128)
    assert torch.equal(weights(theirs), weights(own))
    assert [episode["l"] for episode in theirs.ep_info_buffer] == [episode["l"] for episode in own.ep_info_buffer]


def test_env_pool_is_taken() -> None:
    envpool = pytest.importorskip("envpool")
    env = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=4, seed=0)
    model = PPO("MlpPolicy", env, n_steps=128, batch_size=64, n_epochs=1, seed=0).learn(512)
    assert model.num_timesteps == 512
    assert 10 < np.mean([episode["l"] for episode in model.ep_info_buffer]) < 60  # a random policy keeps about 22 steps


def test_next_step_autoreset_rows_never_train() -> None:
    """gymnasium's vector environments reset ended ones one step later; those rows carry no experience."""
    env = gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="vector_entry_point")
    model = PPO("MlpPolicy", env, n_steps=128, batch_size=64, n_epochs=1, seed=0).learn(512)
    valid = model.rollout_buffer.rollout.valid
    assert valid is not None
    ended = model.rollout_buffer.rollout.terminated | model.rollout_buffer.rollout.truncated
    assert (~valid)[1:].tolist() == ended[:-1].tolist()
    assert len(model.rollout_buffer.rollout.sample_indices()) == valid.sum() < 512


def test_learn_returns_the_model_and_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    model = make_model()
    assert model.learn(64) is model
    assert capsys.readouterr().out == ""


def test_verbose_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    make_model(verbose=1).learn(64)
    out = capsys.readouterr().out
    for word in ("rollout/", "ep_rew_mean", "time/", "fps", "train/", "approx_kl", "n_updates", "| 64 "):
        assert word in out, word
    assert "backend fused" in out


class Sampled(gym.Env[Any, Any]):
    """Shows random observations of a space; the reward is the action."""

    def __init__(self, observation_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, spaces.Discrete(3)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observation_space.sample(), float(action), False, self.steps % 7 == 0, {}


NUMBER = spaces.Box(-1.0, 1.0, (), np.float32)


@BACKENDS
@pytest.mark.parametrize(
    "space", [spaces.Discrete(3, start=1), spaces.MultiDiscrete([2, 3], start=[-5, 7]), NUMBER], ids=str
)
def test_starts_and_single_numbers_are_read(space: spaces.Space[Any], backend: str) -> None:
    """The values in the rollout are those that the network gives for one-hot rows, or the number, made by hand."""
    model = PPO("MlpPolicy", Sampled(space), backend=backend, **(SMALL | {"learning_rate": 0.0})).learn(32)
    seen = model.rollout_buffer.rollout.observations[:, 0]
    assert all(space.contains(np.reshape(row, space.shape).astype(space.dtype)) for row in seen)
    features = seen.reshape(32, -1)
    if space is not NUMBER:
        sizes, starts = np.atleast_1d(getattr(space, "nvec", getattr(space, "n", 0))), np.atleast_1d(space.start)  # type: ignore[attr-defined]
        columns = zip(features.T, sizes, starts, strict=True)
        features = np.concatenate([np.eye(size)[column - start] for column, size, start in columns], axis=1)
    extractor = model.policy.mlp_extractor
    with torch.no_grad():
        expected = model.policy.value_net(extractor.forward_critic(torch.as_tensor(features, dtype=torch.float32)))
    np.testing.assert_allclose(model.rollout_buffer.rollout.values, expected.numpy(), atol=1e-6)
    before = weights(model)
    model = PPO("MlpPolicy", Sampled(space), backend=backend, **SMALL).learn(64)
    assert not torch.equal(before, weights(model))
    assert model.predict(np.stack([space.sample() for _ in range(9)]))[0].shape == (9,)


@pytest.mark.parametrize("policy", ["MultiInputPolicy", "MultiInputLstmPolicy"])
def test_starts_and_single_numbers_within_nested_observations(policy: str) -> None:
    pair = spaces.Tuple([NUMBER, spaces.MultiDiscrete([2, 3], start=[1, 5])])
    space = spaces.Dict(gear=spaces.Discrete(3, start=1), pair=pair)
    model = PPO(policy, Sampled(space), **SMALL)
    before = weights(model)
    model.learn(64)
    assert not torch.equal(before, weights(model))
    action, _ = model.predict(space.sample())
    assert action.shape == ()


@pytest.mark.parametrize("count", [0, -5])
def test_nothing_to_learn_changes_nothing(count: int) -> None:
    model = make_model()
    before = weights(model)
    model.learn(count)
    assert torch.equal(before, weights(model))
    assert model.num_timesteps == 0


def test_dropout_is_off_while_collecting_and_on_while_training() -> None:
    modes: list[tuple[str, bool]] = []

    class Spy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.latent_dim_pi = self.latent_dim_vf = 8
            self.layer = nn.Linear(4, 8)

        def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.forward_actor(features), self.forward_critic(features)

        def forward_actor(self, features: torch.Tensor) -> torch.Tensor:
            modes.append(("gradient" if torch.is_grad_enabled() else "no gradient", self.training))
            return self.layer(features)

        def forward_critic(self, features: torch.Tensor) -> torch.Tensor:
            return self.layer(features)

    from proximo.networks.actor_critic import ActorCriticPolicy

    class SpyPolicy(ActorCriticPolicy):
        def _build_mlp_extractor(self) -> None:
            self.mlp_extractor = Spy()

    PPO(SpyPolicy, "CartPole-v1", **SMALL).learn(64)
    assert set(modes) == {("no gradient", False), ("gradient", True)}
