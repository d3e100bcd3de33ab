"""As PettingZoo's tutorial of action masks has it: one policy plays both sides of a board game."""

import gymnasium as gym
import pettingzoo.utils
from pettingzoo.classic import connect_four_v3
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.wrappers import ActionMasker


class OneAgent(pettingzoo.utils.BaseWrapper, gym.Env):
    """Shows a game in turns as an environment of one agent; the mask comes apart from the board."""

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.observation_space = super().observation_space(self.possible_agents[0])["observation"]
        self.action_space = super().action_space(self.possible_agents[0])
        return self.observe(self.agent_selection), {}

    def step(self, action):
        mover = self.agent_selection
        super().step(action)
        following = self.agent_selection
        over = self.terminations[following]
        return self.observe(following), self._cumulative_rewards[mover], over, self.truncations[following], {}

    def observe(self, agent):
        return super().observe(agent)["observation"]

    def action_mask(self):
        return super().observe(self.agent_selection)["action_mask"]


env = OneAgent(connect_four_v3.env())
env.reset(seed=0)
env = ActionMasker(env, lambda inner: inner.action_mask())
model = MaskablePPO(MaskableActorCriticPolicy, env, verbose=1, n_steps=128)
model.set_random_seed(0)
model.learn(total_timesteps=256)
model.save("connect_four")

# a game against chance: masked actions are never chosen, or the game would end with an illegal move
game = connect_four_v3.env()
model = MaskablePPO.load("connect_four")
game.reset(seed=1)
for agent in game.agent_iter():
    observation, reward, terminated, truncated, info = game.last()
    if terminated or truncated:
        break
    board, mask = observation["observation"], observation["action_mask"]
    if agent == game.possible_agents[0]:
        action = game.action_space(agent).sample(mask)
    else:
        action = int(model.predict(board, action_masks=mask, deterministic=True)[0])
        assert mask[action] == 1
    game.step(action)
print("Winner:", max(game.rewards, key=game.rewards.get))
