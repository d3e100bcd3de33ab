"""Intrinsic rewards as rllte makes them: with environments and device first, in its order of arguments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from proximo import exploration
from proximo.rllte.xplore import reward as rewards
from proximo.rllte.xplore.reward import E3B, NGU, RE3, RND, BaseReward, Fabric

ENVS = SimpleNamespace(observation_space=spaces.Box(-1.0, 1.0, (3,)), action_space=spaces.Discrete(4), num_envs=2)


def samples(steps: int = 8) -> dict[str, Tensor]:
    states = torch.as_tensor(np.random.default_rng(0).normal(size=(steps + 1, 2, 3)).astype(np.float32))
    return {
        "observations": states[:-1],
        "next_observations": states[1:],
        "actions": torch.zeros(steps, 2, dtype=torch.long),
        **{name: torch.zeros(steps, 2) for name in ("rewards", "terminateds", "truncateds")},
    }


@pytest.mark.parametrize("name", ["ICM", "RND", "RE3", "RIDE", "NGU", "PseudoCounts", "E3B", "Disagreement"])
def test_a_reward_is_the_librarys_own_and_bound_at_once(name: str) -> None:
    kind = getattr(rewards, name)
    reward = kind(ENVS, "cpu", 0.5, rwd_norm_type="none")
    assert isinstance(reward, BaseReward)
    assert isinstance(reward, getattr(exploration, name))
    assert (reward.beta, reward.rwd_norm_type) == (0.5, "none")
    assert reward.compute(samples()).shape == (8, 2)


def test_positional_arguments_come_in_rlltes_order() -> None:
    assert RE3(ENVS, "cpu", 1.0, 0.0, 0.9, "rms", "none", 16, 50, 3, True).arguments() == {
        **exploration.RE3(gamma=0.9, obs_norm_type="none", latent_dim=16, storage_size=50, k=3).arguments(),
        "average_entropy": True,
    }
    assert E3B(ENVS, "cpu", 1.0, 0.0, None, "rms", "none", 0.3, 16).ridge == 0.3
    ngu = NGU(ENVS, "cpu", 1.0, 0.0, None, "rms", "rms", 8, 0.01, 32, 4, 0.01, 0.001, 0.1, 9.0, 3.0, 0.5)
    assert (ngu.latent_dim, ngu.lr, ngu.k, ngu.sm, ngu.mrs, ngu.update_proportion) == (8, 0.01, 4, 9.0, 3.0, 0.5)
    with pytest.raises(TypeError, match="RE3 takes envs, device, beta"):
        RE3(ENVS, "cpu", *range(20))


def test_a_users_own_reward() -> None:
    class Distance(BaseReward):
        def __init__(self, envs: Any, device: str = "cpu") -> None:
            super().__init__(envs, device, 2.0, 0.0, None, "none", "none")
            self.seen: list[Tensor] = []

        def watch(self, **step: Tensor) -> None:
            self.seen.append(step["observations"])

        def compute(self, samples: Any, sync: bool = True) -> Tensor:
            super().compute(samples, sync)
            return self.scale((samples["next_observations"] - samples["observations"]).norm(dim=-1))

    given = samples()
    reward = Distance(ENVS)
    wanted = 2.0 * (given["next_observations"] - given["observations"]).norm(dim=-1)
    torch.testing.assert_close(reward.compute(given), wanted)
    assert reward.global_step == 1


def test_vector_environments_of_gymnasium_give_their_single_spaces() -> None:
    envs = gymnasium.make_vec("CartPole-v1", num_envs=3)
    reward = RND(envs)
    assert reward.obs_shape == (4,)
    assert reward.n_envs == 3
    assert reward.policy_action_dim == 2
    envs.close()


def test_a_mix() -> None:
    mix = Fabric(RND(ENVS), E3B(ENVS))
    assert isinstance(mix, BaseReward)
    assert [part.shape for part in mix.compute(samples())] == [(8, 2), (8, 2)]
