"""Connect four, learned by playing against past versions of oneself: ``python examples/self_play.py``.

Needs PettingZoo and its game (``pip install 'proximo[pettingzoo]' 'pettingzoo[classic]'``). Every game is played
against a random player or one of the latest past selves; now and then the player of the moment joins them. At the end
it plays a random player.
"""

from __future__ import annotations

import argparse
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from pettingzoo.classic import connect_four_v3

from proximo import MaskablePPO
from proximo.envs import TurnBasedEnv, as_vec_env
from proximo.training.callbacks import BaseCallback


class PastSelves:
    """Opponents: a policy of the past, drawn for each game; the first of them moves at random."""

    def __init__(self, most: int, seed: int) -> None:
        self.most = most
        self.policies: list[Any] = [None]
        self.generator = np.random.default_rng(seed)
        self.chosen: Any = None

    def add(self, policy: Any) -> None:
        self.policies.append(deepcopy(policy).eval())
        if len(self.policies) > self.most + 1:
            del self.policies[1]  # the random player stays, the oldest self goes

    def draw(self) -> None:
        self.chosen = self.policies[int(self.generator.integers(len(self.policies)))]

    def __call__(self, observation: Any, mask: Any, agent: str) -> int:
        if self.chosen is None:
            return int(self.generator.choice(np.flatnonzero(mask)))
        action, _ = self.chosen.predict(observation, action_masks=mask.astype(bool))
        return int(action)


class SelfPlayEnv(TurnBasedEnv):
    """Draws another opponent for each game."""

    opponent: PastSelves

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.opponent.draw()
        return super().reset(seed=seed, options=options)


class JoinPastSelves(BaseCallback):
    """Adds the policy of the moment to the opponents of all games, every so many rollouts."""

    def __init__(self, opponents: list[PastSelves], every: int) -> None:
        super().__init__()
        self.opponents, self.every, self.rollouts = opponents, every, 0

    def _on_rollout_end(self) -> None:
        self.rollouts += 1
        if self.rollouts % self.every == 0:
            for opponent in self.opponents:
                opponent.add(self.model.policy)


def train(steps: int, seed: int = 0, games: int = 8) -> MaskablePPO:
    opponents = [PastSelves(most=10, seed=seed + index) for index in range(games)]
    env = as_vec_env([lambda opponent=opponent: SelfPlayEnv(connect_four_v3.env(), opponent) for opponent in opponents])
    model = MaskablePPO(
        "MlpPolicy", env, n_steps=256, batch_size=256, n_epochs=4, gamma=0.99, ent_coef=0.01, learning_rate=1e-3,
        policy_kwargs={"net_arch": [128, 128], "activation_fn": torch.nn.ReLU}, seed=seed,
    )  # fmt: skip
    return model.learn(steps, callback=JoinPastSelves(opponents, every=4))


def share_won(model: MaskablePPO, games: int, seed: int = 1000) -> float:
    """Of games against a random player, each side begins every second one."""
    env = TurnBasedEnv(connect_four_v3.env())
    won = 0
    for game in range(games):
        observation, _ = env.reset(seed=seed + game)
        over = False
        while not over:
            action, _ = model.predict(observation, action_masks=env.action_masks(), deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            over = terminated or truncated
        won += reward > 0
    return won / games


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model = train(options.steps, options.seed)
    model.save("connect_four")
    print(f"won {100 * share_won(model, 200):.1f} % of 200 games against a random player")  # noqa: T201


if __name__ == "__main__":
    main()
