"""Identity environments of which some wrong actions are forbidden."""

from proximo.envs.testing.environments import InvalidActionEnvDiscrete as InvalidActionEnvDiscrete
from proximo.envs.testing.environments import InvalidActionEnvMultiBinary as InvalidActionEnvMultiBinary
from proximo.envs.testing.environments import InvalidActionEnvMultiDiscrete as InvalidActionEnvMultiDiscrete
from proximo.other_libraries import names_from

__getattr__ = names_from(__name__, {})
