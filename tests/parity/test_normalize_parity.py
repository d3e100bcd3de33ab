"""VecNormalize keeps the same statistics as Stable-Baselines3's."""

from __future__ import annotations

import numpy as np
from stable_baselines3.common.env_util import make_vec_env as oracle_vec_env
from stable_baselines3.common.vec_env import VecNormalize as OracleNormalize

from proximo import make_vec_env
from proximo.envs import VecNormalize


def test_statistics_are_equal() -> None:
    ours = VecNormalize(make_vec_env("CartPole-v1", n_envs=3, seed=4), gamma=0.9)
    theirs = OracleNormalize(oracle_vec_env("CartPole-v1", n_envs=3, seed=4), gamma=0.9)
    np.testing.assert_allclose(ours.reset(), theirs.reset(), rtol=1e-6)
    random = np.random.default_rng(0)
    for _ in range(120):
        actions = random.integers(2, size=3)
        mine, expected = ours.step(actions), theirs.step(actions)
        for value, wanted in zip(mine[:3], expected[:3], strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.obs_rms.mean, theirs.obs_rms.mean, rtol=1e-7)
    np.testing.assert_allclose(ours.obs_rms.var, theirs.obs_rms.var, rtol=1e-7)
    assert ours.obs_rms.count == theirs.obs_rms.count
    np.testing.assert_allclose(ours.ret_rms.var, theirs.ret_rms.var, rtol=1e-6)
