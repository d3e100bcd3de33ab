"""PyTorch's threads during a training: by the size of the work, never against the user, and given back."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import gymnasium as gym
import pytest
import torch

from proximo import PPO, RecurrentPPO
from proximo.backends import threads
from proximo.backends.fused.threads import available_threads
from proximo.backends.threads import torch_threads
from proximo.cores import CORES_VARIABLE, SHARED_OUT_VARIABLE, THREADS_VARIABLES, bound_cores, shared_out, usable_cores
from proximo.envs import DummyVecEnv, SubprocVecEnv, VecMonitor, make_vec_env
from proximo.envs.testing.environments import FakeImageEnv
from proximo.training.callbacks import BaseCallback

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "seed": 0, "backend": "torch"}

SMALL_IMAGES = SMALL | {"n_steps": 4, "batch_size": 4, "policy_kwargs": {"ortho_init": False}}


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch):
    """PyTorch as it starts on a machine of two cores, whatever this one has and however the tests were started."""
    before = torch.get_num_threads()
    for name in THREADS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "default_numbers", lambda: {2})
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def images(count: int) -> Any:
    make = lambda: FakeImageEnv(screen_height=84, screen_width=84, n_channels=4, channel_first=True)  # noqa: E731
    return make_vec_env(make, n_envs=count)


CASES: dict[str, tuple[Any, set[int], set[int]]] = {
    # how the model is made; threads while it acts, and while it learns
    "small": (lambda: PPO("MlpPolicy", "CartPole-v1", **SMALL), {1}, {1}),
    "recurrent": (
        lambda: RecurrentPPO("MlpLstmPolicy", "CartPole-v1", policy_kwargs={"lstm_hidden_size": 64}, **SMALL),
        {1},
        {1},
    ),
    "wide": (
        lambda: PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [512, 512], "ortho_init": False}, **SMALL),
        {1},
        {2},
    ),
    "many rows": (lambda: PPO("MlpPolicy", "CartPole-v1", **SMALL | {"n_steps": 1024, "batch_size": 1024}), {1}, {2}),
    "images": (lambda: PPO("CnnPolicy", images(2), **SMALL_IMAGES), {2}, {2}),
    "one image": (lambda: PPO("CnnPolicy", images(1), **SMALL_IMAGES), {1}, {2}),
}


def threads_seen(model: Any, callback: Any = None) -> tuple[set[int], set[int]]:
    """Train for a rollout: PyTorch's threads when the policy acted, and when a minibatch was evaluated."""
    acting, learning = set(), set()
    forward, evaluate = model.policy.forward, model.policy.evaluate_actions

    def seen_acting(*arguments: Any, **options: Any) -> Any:
        acting.add(torch.get_num_threads())
        return forward(*arguments, **options)

    def seen_learning(*arguments: Any, **options: Any) -> Any:
        learning.add(torch.get_num_threads())
        return evaluate(*arguments, **options)

    model.policy.forward, model.policy.evaluate_actions = seen_acting, seen_learning
    model.learn(2 * model.n_steps * model.n_envs, callback)
    return acting, learning


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("name", CASES)
def test_threads_follow_the_work_and_are_given_back(name: str) -> None:
    make, acting, learning = CASES[name]
    assert threads_seen(make()) == (acting, learning)
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("number", [1, 3])
def test_a_number_set_by_the_user_stays(number: int) -> None:
    torch.set_num_threads(number)
    for name in ("small", "wide"):
        assert threads_seen(CASES[name][0]()) == ({number}, {number})
        assert torch.get_num_threads() == number


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("variable", THREADS_VARIABLES)
def test_a_variable_set_by_the_user_wins(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "2")
    assert threads_seen(CASES["small"][0]()) == ({2}, {2})


@pytest.mark.usefixtures("two_threads")
def test_a_number_set_within_the_training_stays_after_it() -> None:
    class Setter(BaseCallback):
        def _on_rollout_end(self) -> None:
            torch.set_num_threads(3)

    assert threads_seen(CASES["small"][0](), Setter()) == ({1, 3}, {3})
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("two_threads")
def test_threads_are_given_back_after_an_error_and_after_a_training_within_another() -> None:
    class Nested(BaseCallback):
        def _on_rollout_end(self) -> None:
            CASES["wide"][0]().learn(16)
            assert torch.get_num_threads() == 2  # what the wide one used last: it does not end the outer training
            assert torch_threads.most == 2

    assert threads_seen(CASES["small"][0](), Nested()) == ({1}, {1})
    assert torch.get_num_threads() == 2

    class Failing(BaseCallback):
        def _on_rollout_end(self) -> None:
            assert torch.get_num_threads() == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        CASES["small"][0]().learn(8, Failing())
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("workers", "expected"), [(True, {1}), (False, {2})])
def test_torch_leaves_the_cores_to_workers_while_they_step(workers: bool, expected: set[int]) -> None:
    kind = SubprocVecEnv if workers else DummyVecEnv
    env = VecMonitor(kind([lambda: gym.make("CartPole-v1")] * 4))
    try:
        assert env.has_workers is workers
        wide = PPO("MlpPolicy", env, policy_kwargs={"net_arch": [1024, 1024], "ortho_init": False}, **SMALL)
        assert threads_seen(wide) == (expected, {2})
        assert torch.get_num_threads() == 2
    finally:
        env.close()


@pytest.mark.usefixtures("two_threads")
def test_the_second_thread_of_the_kernels_does_not_depend_on_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proximo.backends.fused.threads.usable_cores", lambda: 2)
    with torch_threads.given_back():
        torch_threads.use(0.0)
        assert torch.get_num_threads() == 1
        assert available_threads() == 2
    torch.set_num_threads(1)
    assert available_threads() == 1


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proximo.cores.bound_cores", lambda: 8)
    for name in (*THREADS_VARIABLES, CORES_VARIABLE, SHARED_OUT_VARIABLE, "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert usable_cores() == 8
    assert usable_cores({"LOCAL_WORLD_SIZE": "3"}) == 2
    assert usable_cores({"SLURM_PROCID": "0", "SLURM_CPUS_PER_TASK": "4"}) == 4
    given = shared_out(4)
    assert given == {"PROXIMO_CORES": "2", "OMP_NUM_THREADS": "2", "PROXIMO_THREADS": "2"}
    assert usable_cores(given | {"LOCAL_WORLD_SIZE": "4"}) == 2
    assert shared_out(100)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert shared_out(4) == {"PROXIMO_CORES": "2"}


def test_processes_share_what_their_parent_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proximo.cores.bound_cores", lambda: 8)
    for name in (*THREADS_VARIABLES, CORES_VARIABLE, SHARED_OUT_VARIABLE, "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in shared_out(2).items():
        monkeypatch.setenv(name, value)
    assert shared_out(4) == {"PROXIMO_CORES": "1", "OMP_NUM_THREADS": "1", "PROXIMO_THREADS": "1"}
    monkeypatch.setenv("MKL_NUM_THREADS", "3")  # the user's
    assert shared_out(4) == {"PROXIMO_CORES": "1"}


@pytest.mark.parametrize("bound", ["", "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"])
def test_a_fresh_process_has_a_default_that_is_known(bound: str) -> None:
    """Otherwise PyTorch's own number would be taken for the user's, and be too many for fewer cores."""
    code = f"import os, torch\n{bound}\nfrom proximo.backends.threads import default_numbers\n"
    code += "print(torch.get_num_threads() in default_numbers())"
    variables = {name: value for name, value in os.environ.items() if name not in THREADS_VARIABLES}
    found = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert found.stdout == "True\n", (bound_cores(), found.stdout)
