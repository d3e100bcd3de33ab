"""What processes do in the tests of the group itself."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed import PrefixStore
from trainings import environments, make_model, outcome

from proximo import PPO, distributed
from proximo.analysis.evaluation import evaluate_policy
from proximo.distributed import Group, join
from proximo.envs import make_vec_env
from proximo.envs.vector.vec_env import VecEnv
from proximo.errors import DistributedError
from proximo.training.callbacks import BaseCallback, CheckpointCallback, EvalCallback


def own_rank() -> int:
    return int(os.environ.get("RANK", 0))


def group_here() -> Group:
    group = join()
    assert group is not None
    return group


def exchange_everything() -> dict[str, Any]:
    group = group_here()
    shares = group.shares(2 + group.rank, "a test")
    own = np.arange(shares[group.rank].count, dtype=np.float64).reshape(1, -1) + 10 * group.rank
    whole = np.zeros((1, shares[0].total))
    group.gather_rows([(own, whole, 1)], shares, "a test")
    total = torch.tensor([1.0, 10.0]) * (group.rank + 1)
    group.sum(total)
    return {
        "shares": shares,
        "whole": whole,
        "sum": total.numpy(),
        "sums": group.sums(np.array([0.1]), "a test"),
        "small": group.gather({"rank": group.rank}, "a test"),
        "large": [len(text) for text in group.gather("x" * (1000 * (1 + group.rank)), "a test")],
        "first": group.first(f"of rank {group.rank}", "a test"),
        "highest": group.highest([group.rank, group.rank == 0], "a test"),
        "counted": (group.messages, group.bytes > 0),
    }


def messages_of_training(name: str, n_steps: int, iterations: int) -> int:
    """How many exchanges a training has."""
    model = make_model(name, 4, n_steps=n_steps)
    before = group_here().messages
    model.learn(iterations * n_steps * 8)
    return group_here().messages - before


class StepSpy(BaseCallback):
    """Asks for the end at a step of one rank's rollout, and counts its calls."""

    def __init__(self, rank: int, step: int) -> None:
        super().__init__()
        self.rank, self.step = rank, step

    def _on_step(self) -> bool:
        return not (self.rank == self.model.rank and self.n_calls == self.step)


class Evaluator(BaseCallback):
    """Evaluates on rank 0 alone, for longer than the others would wait for a silent process."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def _on_rollout_end(self) -> None:
        if self.model.rank == 0:
            until = time.monotonic() + self.seconds
            while time.monotonic() < until:
                evaluate_policy(self.model, environments(1), n_eval_episodes=1, warn=False)
                time.sleep(0.05)


def callbacks_and_files(folder: str, evaluating: float = 0.5) -> dict[str, Any]:
    """Who writes, who stops, who waits."""
    found: dict[str, Any] = {}
    place = Path(folder) / f"rank-{own_rank()}"  # on machines without a common disk
    place.mkdir()
    os.chdir(place)
    model = make_model("discrete", 4, tensorboard_log="boards", verbose=1)
    evaluation = EvalCallback(
        environments(2), n_eval_episodes=5, eval_freq=10, log_path="logs", best_model_save_path="best"
    )
    saving = CheckpointCallback(save_freq=24, save_path="saved", save_vecnormalize=True)
    model.learn(24 * 8 * 2, callback=[evaluation, saving, Evaluator(evaluating)], progress_bar=True)
    model.save("model")
    found["files"] = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
    found["evaluations"] = evaluation.evaluations_results
    found["last"] = evaluation.last_mean_reward
    stopped = make_model("discrete", 4)
    spy = StepSpy(rank=1, step=5)
    stopped.learn(24 * 8 * 3, callback=spy)
    found["stopped"] = (stopped.num_timesteps, outcome(stopped)["weights"])
    found["calls"] = spy.n_calls
    alone = make_model("discrete", 4, distributed=False)
    alone.learn(96)
    found["alone"] = (alone.world_size, alone.rank, alone.n_envs, alone.num_timesteps)
    found["together"] = (model.world_size, model.rank, model.n_envs, model.num_timesteps)
    loaded = PPO.load("model") if own_rank() == 0 else None  # without an environment nobody else is needed
    found["loaded"] = None if loaded is None else loaded.num_timesteps
    found["seeds"] = _first_seeds(make_vec_env("CartPole-v1", n_envs=2, seed=0))
    unseeded = make_model("discrete", 4, seed=None)
    unseeded.learn(24 * 8)
    found["unseeded"] = outcome(unseeded)["weights"]
    return found


def _first_seeds(env: VecEnv) -> list[Any]:
    return list(env._seeds)


class Failing(BaseCallback):
    """Fails on rank 1, at its 30th step; ``busy`` earlier, while rank 0 takes its time; ``first`` on rank 0."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def _on_step(self) -> bool:
        if self.kind == "busy" and self.model.rank == 0:
            time.sleep(0.1)
        culprit = 0 if self.kind == "first" else 1
        if self.model.rank == culprit and self.n_calls == (5 if self.kind == "busy" else 30):
            match self.kind:
                case "exception" | "busy" | "first":
                    raise ZeroDivisionError("a bug of the user's")
                case "nan":
                    self.training_env.envs[0].unwrapped.place = float("nan")
                case "drift":
                    with torch.no_grad():  # as a processor would that rounds differently
                        self.model.policy.value_net.bias.add_(1e-7)
                case "killed":
                    os.kill(os.getpid(), 9)
                case "hang":
                    time.sleep(600)
        return True


def fail_on_one_rank(kind: str) -> None:
    make_model("discrete", 4).learn(100_000, callback=Failing(kind))


def fail_to_connect() -> str:
    """The processes look for each other in different places, as if no connection between them came about."""
    os.environ["PROXIMO_TIMEOUT"] = "2"
    distributed.PrefixStore = lambda name, store: PrefixStore(f"{name}/{own_rank()}", store)
    with pytest.raises(DistributedError) as raised:
        join()
    return str(raised.value)


def meet_too_few() -> str:
    """Of three processes, the last one is never started."""
    os.environ.update(WORLD_SIZE="3", PROXIMO_TIMEOUT="1")
    with pytest.raises(DistributedError) as raised:
        join()
    return str(raised.value)
