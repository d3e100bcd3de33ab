"""Play episodes with an exported policy:  python play.py policy.onnx CartPole-v1 --episodes 10

Needs numpy, onnxruntime and gymnasium. Wrappers of the training that change observations (frame stacking, say) have to
be put around the environment here as well; normalisation is inside the file.
"""

from __future__ import annotations

import argparse

import gymnasium as gym
from policy import Policy


def play(policy: Policy, env: gym.Env, episodes: int, seed: int) -> list[float]:
    """The return of each episode."""
    returns = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed + episode)
        total, start, over = 0.0, True, False
        while not over:
            masks = env.get_wrapper_attr("action_masks")() if "action_masks" in policy.metadata["inputs"] else None
            action = policy.act(observation, start, masks)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, start, over = total + float(reward), False, terminated or truncated
        returns.append(total)
    return returns


def main() -> None:
    parser = argparse.ArgumentParser(description="Play episodes with an exported policy.")
    parser.add_argument("policy", help="file written by `proximo export`, such as policy.onnx")
    parser.add_argument("env", help="environment, such as CartPole-v1")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    returns = play(Policy(arguments.policy), gym.make(arguments.env), arguments.episodes, arguments.seed)
    for number, value in enumerate(returns, 1):
        print(f"episode {number}: {value:g}")
    print(f"mean return: {sum(returns) / len(returns):g}")


if __name__ == "__main__":
    main()
