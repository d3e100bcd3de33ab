from rllte.agent import PPO
from rllte.env.testing import make_discrete_env
from rllte.xploit.encoder import EspeholtResidualEncoder
from rllte.xplore.reward import RE3

device = "cpu"
env = make_discrete_env("PixelObsEnv", num_envs=2, device=device)
eval_env = make_discrete_env("PixelObsEnv", num_envs=1, device=device)
agent = PPO(env=env, eval_env=eval_env, device=device, tag="ppo_images", feature_dim=512, num_steps=8, batch_size=8)
agent.set(encoder=EspeholtResidualEncoder(observation_space=env.observation_space, feature_dim=512))
agent.set(reward=RE3(envs=env, device=device))
agent.train(num_train_steps=32, num_eval_episodes=1)
assert agent.global_step == 32
