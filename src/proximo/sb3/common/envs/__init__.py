"""Small environments for tests."""

from proximo.envs.testing.environments import BitFlippingEnv as BitFlippingEnv
from proximo.envs.testing.environments import FakeImageEnv as FakeImageEnv
from proximo.envs.testing.environments import IdentityEnv as IdentityEnv
from proximo.envs.testing.environments import IdentityEnvBox as IdentityEnvBox
from proximo.envs.testing.environments import IdentityEnvMultiBinary as IdentityEnvMultiBinary
from proximo.envs.testing.environments import IdentityEnvMultiDiscrete as IdentityEnvMultiDiscrete
from proximo.envs.testing.environments import SimpleMultiObsEnv as SimpleMultiObsEnv
from proximo.other_libraries import names_from

__getattr__ = names_from(__name__, {})
