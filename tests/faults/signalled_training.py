"""A training that ends well on a signal; run as a script by ``test_signals.py``: FOLDER STEPS WORKERS [resume].

Prints "training" when signals are expected, and at the end a hash of the weights.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

from proximo import PPO, make_vec_env
from proximo.envs import DummyVecEnv, SubprocVecEnv
from proximo.training.checkpoints import CheckpointFolder, PeriodicCheckpoints
from proximo.training.signals import StopOnSignal

TOTAL = 640


class SlowCartPole(gym.Wrapper[Any, Any, Any, Any]):
    """Takes ``seconds`` for each step, so that a signal comes in the middle."""

    def __init__(self, seconds: float) -> None:
        super().__init__(gym.make("CartPole-v1"))
        self.seconds = seconds

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        time.sleep(self.seconds)
        return self.env.step(action)

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        pass


def main() -> int:
    folder, n_steps, workers = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "workers"
    seconds = 0.004
    kind = SubprocVecEnv if workers else DummyVecEnv
    env = make_vec_env(SlowCartPole, 2, seed=1, env_kwargs={"seconds": seconds}, vec_env_cls=kind)
    checkpoints = PeriodicCheckpoints(folder, every_steps=10_000)
    if "resume" in sys.argv:
        model = PPO.load(CheckpointFolder(folder).newest(), env=env, device="cpu")
    else:
        model = PPO("MlpPolicy", env, n_steps=n_steps, batch_size=32, n_epochs=2, seed=3, device="cpu")
    with StopOnSignal(checkpoints) as stop:
        print("training", flush=True)
        if "resume" in sys.argv:
            model.resume(callback=[checkpoints, stop])
        else:
            model.learn(TOTAL, callback=[checkpoints, stop])
    env.close()
    weights = b"".join(value.detach().numpy().tobytes() for value in model.policy.state_dict().values())
    print(model.num_timesteps, hashlib.sha256(weights).hexdigest(), flush=True)
    return stop.exit_code


if __name__ == "__main__":
    sys.exit(main())
