"""A callback as a plain function, and one made of several; the second stops the training."""

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CallbackList, EveryNTimesteps, BaseCallback, StopTrainingOnMaxEpisodes

calls = 0


def count(locals_, globals_):
    global calls
    calls += 1
    return "infos" in locals_ and locals_["self"] is model


class Remember(BaseCallback):
    def __init__(self):
        super().__init__()
        self.steps = []

    def _on_step(self):
        self.steps.append(self.num_timesteps)
        return True


model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, seed=0)
model.learn(64, callback=count)
assert calls == 64

remember = Remember()
stop = StopTrainingOnMaxEpisodes(max_episodes=2)
model.learn(10_000, callback=CallbackList([EveryNTimesteps(n_steps=10, callback=remember), stop]))
assert stop.n_episodes == 2
assert remember.steps == list(range(10, model.num_timesteps + 1, 10))
assert model.num_timesteps < 10_000
