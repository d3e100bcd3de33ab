"""The example from which this library started: only its imports change, and its endless loop ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proximo import PPO
from proximo.envs import VecEnv


@pytest.mark.filterwarnings("ignore:no display")
def test_seed_example(
    run_script: Callable[..., dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = run_script("seed_example", **{"while True": "for _ in range(100)"})
    model, vec_env = variables["model"], variables["vec_env"]
    assert isinstance(model, PPO)
    assert isinstance(vec_env, VecEnv)
    assert (tmp_path / "ppo_cartpole.zip").is_file()
    assert variables["obs"].shape == (4, 4)
    assert variables["rewards"].tolist() == [1.0] * 4
    assert model.num_timesteps == 32_768  # four rollouts of 4 · 2,048 steps reach 25,000
    returns = [row for row in capsys.readouterr().out.splitlines() if "ep_rew_mean" in row]
    learning_curve = [float(row.strip("| ").split("|")[1]) for row in returns]
    assert len(learning_curve) == 4
    assert learning_curve[0] < 40 < 60 < learning_curve[-1], learning_curve


def test_the_front_door_has_the_same_objects() -> None:
    import proximo
    from proximo.sb3 import PPO as through_the_door
    from proximo.sb3.common.env_util import make_vec_env

    assert proximo.PPO is through_the_door
    assert proximo.make_vec_env is make_vec_env
    env = proximo.make_vec_env("CartPole-v1", n_envs=2)
    assert np.shape(env.reset()) == (2, 4)
