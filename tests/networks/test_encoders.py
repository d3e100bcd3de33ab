"""The features extractor of Dict observations, whatever the keys are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from proximo import PPO
from proximo.networks.encoders import CombinedExtractor
from proximo.networks.published_encoders import RaffinCombinedEncoder

KEYS = ("type", "camera.rgb", "part_0", "values", "_modules", "speed")


class Named(gym.Env[Any, Any]):
    observation_space = spaces.Dict(
        {key: spaces.Box(-1.0, 1.0, (2,)) for key in KEYS} | {"training": spaces.Box(0, 255, (3, 36, 36), np.uint8)}
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 1.0, False, True, {}


@pytest.mark.parametrize("kind", [CombinedExtractor, RaffinCombinedEncoder])
def test_keys_that_are_no_names_of_modules(kind: Any, tmp_path: Path) -> None:
    arguments = {"features_extractor_class": kind}
    if kind is RaffinCombinedEncoder:
        arguments["features_extractor_kwargs"] = {"feature_dim": 8}
    model = PPO("MultiInputPolicy", Named(), n_steps=8, batch_size=8, policy_kwargs=arguments, seed=0).learn(8)
    observation = Named.observation_space.sample()
    chosen, _ = model.predict(observation, deterministic=True)
    model.save(tmp_path / "model.zip")
    again, _ = PPO.load(tmp_path / "model.zip").predict(observation, deterministic=True)
    assert chosen == again


def test_other_keys_name_their_modules_as_in_stable_baselines3() -> None:
    space = spaces.Dict(camera=spaces.Box(0, 255, (3, 36, 36), np.uint8), speed=spaces.Box(-1.0, 1.0, (2,)))
    assert list(CombinedExtractor(space).extractors) == list(space.spaces)
    nested = spaces.Dict({key: spaces.Box(-1.0, 1.0, (2,)) for key in ("arm/0", "a b", "type")})
    assert set(CombinedExtractor(nested).extractors) == {"arm/0", "a b", f"part_{list(nested.spaces).index('type')}"}
