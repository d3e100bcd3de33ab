"""imitation's adversarial trainers: a generator learns from a discriminator of its own and an expert's steps."""

import sys

import numpy as np
from imitation.algorithms.adversarial.airl import AIRL
from imitation.algorithms.adversarial.gail import GAIL
from imitation.data import rollout
from imitation.data.wrappers import RolloutInfoWrapper
from imitation.rewards.reward_nets import BasicRewardNet, BasicShapedRewardNet
from imitation.util.networks import RunningNorm
from imitation.util.util import make_vec_env
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.ppo import MlpPolicy

rng = np.random.default_rng(0)
env = make_vec_env("CartPole-v1", rng=rng, n_envs=4, post_wrappers=[lambda inner, _: RolloutInfoWrapper(inner)])
expert = PPO("MlpPolicy", env, n_steps=64, seed=0).learn(2048)
trajectories = rollout.rollout(expert, env, rollout.make_sample_until(min_timesteps=None, min_episodes=8), rng=rng)
learner = PPO(
    env=env, policy=MlpPolicy, batch_size=64, ent_coef=0.0, learning_rate=0.0004, n_epochs=5, n_steps=64, seed=0
)
trainers = {"gail": (GAIL, BasicRewardNet), "airl": (AIRL, BasicShapedRewardNet)}
trainer, network = trainers[sys.argv[1] if len(sys.argv) > 1 else "gail"]
reward_net = network(
    observation_space=env.observation_space, action_space=env.action_space, normalize_input_layer=RunningNorm
)
adversary = trainer(
    demonstrations=trajectories,
    demo_batch_size=64,
    gen_replay_buffer_capacity=512,
    n_disc_updates_per_round=2,
    venv=env,
    gen_algo=learner,
    reward_net=reward_net,
    allow_variable_horizon=True,
)
rounds = 3
adversary.train(4 * 64 * rounds)
# an algorithm that it does not take for an on-policy one would be given other numbers of steps
assert learner.num_timesteps == 4 * 64 * rounds, learner.num_timesteps
returns, _ = evaluate_policy(learner, env, 4, return_episode_rewards=True)
print("Returns:", returns)
