"""Exploration noise: arrays of the agent's own generator, the same for every backend, so that all explore alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proximo.data import Array
from proximo.networks.distributions.base import NoiseKind


def draw_noise(noise: Array, kinds: Sequence[NoiseKind], generator: np.random.Generator) -> None:
    """Fill ``noise`` [time, env, column] float32 for a whole rollout, by the kind of each column."""
    if set(kinds) == {"normal"}:
        generator.standard_normal(out=noise, dtype=np.float32)
        return
    generator.random(out=noise, dtype=np.float32)
    normal = [column for column, kind in enumerate(kinds) if kind == "normal"]
    if normal:
        noise[..., normal] = generator.standard_normal((*noise.shape[:2], len(normal)), np.float32)


def draw_normals(normals: Array, generator: np.random.Generator) -> None:
    """Fill ``normals`` [env, action, latent] float32, of which state-dependent noise makes its matrices."""
    generator.standard_normal(out=normals, dtype=np.float32)
