"""A seed decides a run, whoever steps the environments and whoever watches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from family import Member, every_member, weights
from proximo import PPO, make_vec_env
from proximo.envs import SubprocVecEnv, VecNormalize
from proximo.training.callbacks import BaseCallback


def train(env_id: str = "CartPole-v1", backend: str = "auto", steps: int = 512, **arguments: Any) -> PPO:
    vec_env_cls = arguments.pop("vec_env_cls", None)
    callback = arguments.pop("callback", None)
    env = make_vec_env(env_id, n_envs=4, vec_env_cls=vec_env_cls)
    if arguments.pop("normalize", False):
        env = VecNormalize(env)
    settings: dict[str, Any] = {"n_steps": 32, "batch_size": 32, "n_epochs": 3, "seed": 7, "backend": backend}
    try:
        return PPO("MlpPolicy", env, **(settings | arguments)).learn(steps, callback=callback)
    finally:
        env.close()


def assert_same_weights(first: PPO, second: PPO, same: bool = True) -> None:
    others = second.policy.state_dict()
    equal = [torch.equal(value, others[name]) for name, value in first.policy.state_dict().items()]
    assert all(equal) if same else not any(equal)


@pytest.mark.parametrize("backend", ["fused", "torch"])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_same_seed_same_weights(env_id: str, backend: str) -> None:
    first, second = train(env_id, backend), train(env_id, backend)
    assert_same_weights(first, second)
    assert [episode["r"] for episode in first.ep_info_buffer] == [episode["r"] for episode in second.ep_info_buffer]
    assert np.array_equal(first.rollout_buffer.actions, second.rollout_buffer.actions)


@every_member
def test_same_seed_same_run(member: Member) -> None:
    """Every member of the family: the same weights and actions for a seed, others for another."""
    first, second, other = (member.learn(member.make(seed=seed), 96) for seed in (5, 5, 6))
    assert torch.equal(weights(first), weights(second))
    assert np.array_equal(first.rollout_buffer.actions, second.rollout_buffer.actions)
    assert not np.array_equal(first.rollout_buffer.actions, other.rollout_buffer.actions)


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_other_seed_other_weights(backend: str) -> None:
    first, second = train(backend=backend).policy, train(backend=backend, seed=8).policy
    assert not torch.equal(first.action_net.weight, second.action_net.weight)


def test_global_numpy_seed_makes_unseeded_runs_repeatable() -> None:
    runs = []
    for _ in range(2):
        np.random.seed(3)
        torch.manual_seed(3)
        runs.append(train(seed=None))
    assert_same_weights(*runs)


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_worker_processes_change_nothing(backend: str) -> None:
    in_process, in_workers = train(backend=backend), train(backend=backend, vec_env_cls=SubprocVecEnv)
    assert_same_weights(in_process, in_workers)
    assert np.array_equal(in_process.rollout_buffer.observations, in_workers.rollout_buffer.observations)


@every_member
def test_workers_of_every_member_change_nothing(member: Member) -> None:
    in_process = member.learn(member.make(), 96)
    in_workers = member.make(vec_env_cls=SubprocVecEnv)
    try:
        member.learn(in_workers, 96)
    finally:
        in_workers.get_env().close()
    assert torch.equal(weights(in_process), weights(in_workers))
    assert np.array_equal(in_process.rollout_buffer.values, in_workers.rollout_buffer.values)
    assert np.array_equal(in_process.rollout_buffer.actions, in_workers.rollout_buffer.actions)


class Watcher(BaseCallback):
    """Wants every variable of every step."""

    def _on_step(self) -> bool:
        return len(self.locals["infos"]) == 4


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_a_watching_callback_changes_nothing(env_id: str, normalize: bool) -> None:
    """Without a callback the collector takes its lean path; both see the same environments."""
    alone = train(env_id, normalize=normalize)
    watched = train(env_id, normalize=normalize, callback=Watcher())
    assert_same_weights(alone, watched)
    assert alone.num_timesteps == watched.num_timesteps == 512


@every_member
def test_watching_any_member_changes_nothing(member: Member) -> None:
    """Also for a policy with memory, whose state the two ways of stepping must carry alike."""

    class Counter(BaseCallback):
        seen = 0

        def _on_step(self) -> bool:
            self.seen += len(self.locals["infos"])
            return True

    counter = Counter()
    alone, watched = member.learn(member.make(), 96), member.learn(member.make(), 96, callback=counter)
    assert torch.equal(weights(alone), weights(watched))
    assert counter.seen == 96


@every_member
def test_continuing_any_member_equals_one_long_run(member: Member) -> None:
    """What a policy remembers, the noise and the place in the episode outlive a call of ``learn``."""
    whole, parts = member.learn(member.make(), 128), member.learn(member.make(), 64)
    member.learn(parts, 64, reset_num_timesteps=False)
    assert parts.num_timesteps == whole.num_timesteps == 128
    assert torch.equal(weights(whole), weights(parts))


def test_prediction_and_evaluation_do_not_disturb_training() -> None:
    """Deterministic predictions draw no random numbers of the training."""

    class Predict(BaseCallback):
        def _on_step(self) -> bool:
            self.model.predict(np.zeros(4, np.float32), deterministic=True)
            return True

    assert_same_weights(train(), train(callback=Predict()))


def test_continuing_equals_one_long_run() -> None:
    """Learning rate and clip range are constant, so where learn() is called again makes no difference."""
    whole = train(steps=256)
    parts = train(steps=128)
    parts.learn(128, reset_num_timesteps=False)
    assert parts.num_timesteps == whole.num_timesteps == 256
    assert_same_weights(whole, parts)
