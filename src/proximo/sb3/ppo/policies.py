"""PPO's policies under their short names: A2C's."""

from proximo.sb3.a2c.policies import ActorCriticCnnPolicy as ActorCriticCnnPolicy
from proximo.sb3.a2c.policies import ActorCriticPolicy as ActorCriticPolicy
from proximo.sb3.a2c.policies import CnnPolicy as CnnPolicy
from proximo.sb3.a2c.policies import MlpPolicy as MlpPolicy
from proximo.sb3.a2c.policies import MultiInputActorCriticPolicy as MultiInputActorCriticPolicy
from proximo.sb3.a2c.policies import MultiInputPolicy as MultiInputPolicy
