"""Small behaviours that scripts rely on, compared with the real Stable-Baselines3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3.common.logger as their_logger
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import stacked_observations
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import proximo
from proximo.envs import StackedObservations
from proximo.training import loggers as our_logger


@pytest.mark.parametrize("order", [None, "first", "last"])
@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (84, 80, 3), np.uint8),
        spaces.Box(0, 255, (3, 84, 80), np.uint8),
        spaces.Box(0.0, 1.0, (3, 40, 40)),
        spaces.Box(-1.0, 1.0, (5,)),
    ],
    ids=str,
)
def test_stacking(space: spaces.Box, order: str | None) -> None:
    ours = StackedObservations.compute_stacking(4, space, order)
    assert ours == stacked_observations.StackedObservations.compute_stacking(4, space, order)
    assert ours[2] == StackedObservations(1, 4, space, order).stacked_observation_space.shape


@pytest.mark.parametrize("media", [our_logger, their_logger], ids=["own classes", "Stable-Baselines3's classes"])
def test_videos_figures_and_images_reach_tensorboard(media: Any, tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    seen = []
    for kind, library in (("ours", our_logger), ("theirs", their_logger)):
        which = media if library is our_logger else their_logger  # the real logger knows no other classes than its own
        figure = Figure(figsize=(1, 1))
        figure.subplots().plot([1, 2])
        logger = library.configure(str(tmp_path / kind), ["tensorboard"])
        logger.record("a/video", which.Video(torch.ones(1, 2, 3, 8, 8), fps=4))
        logger.record("a/figure", which.Figure(figure, close=True))
        logger.record("a/image", which.Image(np.zeros((8, 8, 3), np.uint8), "HWC"))
        logger.record("a/number", 1.5)
        logger.dump(7)
        logger.close()
        events = EventAccumulator(str(tmp_path / kind)).Reload()
        tags = events.Tags()
        seen.append((sorted(tags["images"]), tags["scalars"], [event.step for event in events.Images("a/figure")]))
    assert seen[0] == seen[1]
    assert {"a/figure", "a/image"} <= set(seen[0][0])


def test_media_of_stable_baselines3_are_refused_where_it_refuses_them(tmp_path: Path) -> None:
    logger = our_logger.configure(str(tmp_path), ["json"])
    logger.record("a/video", their_logger.Video(torch.ones(1, 2, 3, 8, 8), fps=4))
    with pytest.raises(our_logger.FormatUnsupportedError, match="video"):
        logger.dump()


class _Named(gym.ObservationWrapper):
    """The same vector under a key."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = spaces.Dict({"vector": env.observation_space})

    def observation(self, observation: Any) -> Any:
        return {"vector": observation}


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "TRPO"])
def test_a_dictionary_of_one_vector_trains_like_the_vector(algorithm: str) -> None:
    weights = []
    for policy, wrap in (("MlpPolicy", lambda env: env), ("MultiInputPolicy", _Named)):
        env = wrap(gym.make("CartPole-v1"))
        model = getattr(proximo, algorithm)(policy, env, n_steps=64, seed=3, backend="torch", device="cpu").learn(256)
        weights.append(torch.cat([parameter.detach().reshape(-1) for parameter in model.policy.parameters()]))
    assert torch.equal(*weights)
