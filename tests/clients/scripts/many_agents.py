"""As PettingZoo's tutorial of Stable-Baselines3 has it: agents of a parallel game share one policy."""

import supersuit as ss
from pettingzoo.butterfly import knights_archers_zombies_v11 as game
from stable_baselines3 import PPO
from stable_baselines3.ppo import MlpPolicy

env = game.parallel_env(max_cycles=40, max_zombies=2)
env = ss.black_death_v3(env)
env.reset(seed=0)
print(f"Starting training on {env.metadata['name']}.")
env = ss.pettingzoo_env_to_vec_env_v1(env)
env = ss.concat_vec_envs_v1(env, 2, num_cpus=1, base_class="stable_baselines3")

model = PPO(MlpPolicy, env, verbose=3, batch_size=64, n_steps=32)
model.learn(total_timesteps=512)
model.save("many_agents")
env.close()

# evaluation in turns, agent by agent
env = game.env(max_cycles=20, max_zombies=2)
model = PPO.load("many_agents")
rewards = dict.fromkeys(env.possible_agents, 0.0)
env.reset(seed=1)
for _agent in env.agent_iter():
    observation, reward, terminated, truncated, _ = env.last()
    for each in env.agents:
        rewards[each] += env.rewards[each]
    env.step(None if terminated or truncated else model.predict(observation, deterministic=True)[0])
env.close()
print("Rewards:", rewards)
