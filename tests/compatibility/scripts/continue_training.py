"""Train, save, load, train on; the step counter goes on when asked to. The progress bar shows all of it."""

from stable_baselines3 import PPO

model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=0)
model.learn(128, progress_bar=True)
model.learn(64, reset_num_timesteps=False)
assert model.num_timesteps == 192
model.learn(64)
assert model.num_timesteps == 64
model.learn(64, reset_num_timesteps=False)
model.save("continued")
loaded = PPO.load("continued", env=model.get_env())
assert loaded.num_timesteps == 128
loaded.learn(64, reset_num_timesteps=False)
assert loaded.num_timesteps == 192
