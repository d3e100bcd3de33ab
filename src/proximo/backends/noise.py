"""Exploration noise: arrays of the agent's own generator, the same for every backend, so that all explore alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proximo.data import Array, Share
from proximo.networks.distributions.base import NoiseKind


def draw_noise(
    noise: Array, kinds: Sequence[NoiseKind], generator: np.random.Generator, share: Share | None = None
) -> None:
    """Fill ``noise`` [time, env, column] float32 for a whole rollout, by the kind of each column.

    With a ``share``, the noise of all processes' environments is drawn, and the process's own rows are kept.
    """
    if share is not None:
        whole = np.empty((noise.shape[0], share.total, noise.shape[2]), np.float32)
        draw_noise(whole, kinds, generator)
        noise[:] = whole[:, share.rows]
        return
    if set(kinds) == {"normal"}:
        generator.standard_normal(out=noise, dtype=np.float32)
        return
    generator.random(out=noise, dtype=np.float32)
    normal = [column for column, kind in enumerate(kinds) if kind == "normal"]
    if normal:
        noise[..., normal] = generator.standard_normal((*noise.shape[:2], len(normal)), np.float32)


def draw_normals(normals: Array, generator: np.random.Generator, share: Share | None = None) -> None:
    """Fill ``normals`` [env, action, latent] float32, of which state-dependent noise makes its matrices."""
    if share is not None:
        normals[:] = generator.standard_normal((share.total, *normals.shape[1:]), np.float32)[share.rows]
        return
    generator.standard_normal(out=normals, dtype=np.float32)
