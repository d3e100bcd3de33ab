"""Tuned presets as data: ``load_preset("ppo", "CartPole-v1")`` tells how to make the environments and the model."""

from proximo.zoo.environments import make_preset_env
from proximo.zoo.presets import Preset, available_presets, load_preset

__all__ = ["Preset", "available_presets", "load_preset", "make_preset_env"]
