"""Callbacks that derive from the real Stable-Baselines3's BaseCallback, such as wandb's own."""

from __future__ import annotations

import pytest

from .reading import items, wandb_history, wandb_records

pytest.importorskip("wandb")
import proximo
import proximo.sb3


def test_wandb_callback_in_learn(tmp_path):
    """With both PPOs: configuration, gradients of the parameters, and the saved model are those of the training."""
    import wandb
    from stable_baselines3.common.callbacks import BaseCallback as RealBaseCallback
    from wandb.integration.sb3 import WandbCallback

    assert issubclass(WandbCallback, RealBaseCallback)
    for number, algorithm in enumerate((proximo.PPO, proximo.sb3.PPO)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with wandb.init(project="proximo", dir=str(folder), settings=wandb.Settings(console="off")) as run:
            model = algorithm("MlpPolicy", "CartPole-v1", n_steps=64, n_epochs=2, gamma=0.9, seed=1)
            callback = WandbCallback(
                model_save_path=str(folder / "models"), model_save_freq=64, gradient_save_freq=1, log="all"
            )
            model.learn(192, callback=callback)
            assert callback.n_calls == 192
            run.log({"done": 1})
        loaded = algorithm.load(folder / "models" / "model.zip")
        assert loaded.num_timesteps == 192
        config = items(entry for kind, record in wandb_records(folder) if kind == "config" for entry in record.update)
        assert (config["algo"], config["gamma"], config["n_steps"]) == ("PPO", 0.9, 64)
        names = {key for row in wandb_history(folder) for key in row}
        assert any(name.startswith("gradients/") for name in names), sorted(names)
        assert any(name.startswith("parameters/") for name in names)
