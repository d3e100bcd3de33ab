"""PyBullet's environments give their state: what follows is the same to the bit, in another simulation too."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from proximo import PPO, make_vec_env
from proximo.envs import SubprocVecEnv
from proximo.files.encoding import decode, encode
from proximo.training.checkpoints import PeriodicCheckpoints

pytest.importorskip("pybullet_envs_gymnasium")

ENVIRONMENTS = ["HalfCheetah", "Hopper", "Reacher", "InvertedDoublePendulum"]


def play(env, steps, seed):
    """What comes of random actions; episodes end early now and then, so that there are resets."""
    chance, seen = np.random.default_rng(seed), []
    for _ in range(steps):
        actions = chance.uniform(-1.0, 1.0, (env.num_envs, *env.action_space.shape)).astype(np.float32)
        observations, rewards, dones, _ = env.step(actions)
        seen.append(np.concatenate([observations.ravel(), rewards, dones]))
    return np.array(seen)


def make(name, seed, **options):
    return make_vec_env(f"{name}BulletEnv-v0", 2, seed=seed, env_kwargs={"max_episode_steps": 40}, **options)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_state_goes_on_in_another_simulation(name):
    first = make(name, seed=1)
    first.reset()
    play(first, 70, seed=0)
    tensors: dict[str, torch.Tensor] = {}
    state = decode(encode(first.get_state(), tensors), tensors)  # as a file would hold it
    expected = play(first, 100, seed=5)
    second = make(name, seed=77)
    second.set_state(state)
    np.testing.assert_array_equal(play(second, 100, seed=5), expected)
    undisturbed = make(name, seed=1)
    undisturbed.reset()
    play(undisturbed, 70, seed=0)
    np.testing.assert_array_equal(play(undisturbed, 100, seed=5), expected)  # taking the state changed nothing
    for env in (first, second, undisturbed):
        env.close()


@pytest.mark.parametrize("kind", [{}, {"vec_env_cls": SubprocVecEnv, "vec_env_kwargs": {"start_method": "fork"}}])
def test_a_training_resumes_exactly(kind, tmp_path):
    def weights(model):
        return torch.cat([value.flatten() for value in model.policy.state_dict().values()])

    def env():
        return make("Hopper", seed=1, **kind)

    model = PPO("MlpPolicy", env(), n_steps=64, batch_size=64, n_epochs=2, seed=3)
    model.learn(384, callback=PeriodicCheckpoints(tmp_path, every_steps=128, keep_last=9, exact=True))
    again = PPO.load(tmp_path / "model_128_steps.zip", env=env()).resume()
    assert torch.equal(weights(again), weights(model))
    model.env.close()
    again.env.close()
