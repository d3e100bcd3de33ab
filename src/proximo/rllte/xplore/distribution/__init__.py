"""Action distributions, called as rllte calls them: ``Categorical()(logits)`` is the distribution of a batch."""

from typing import Any

from proximo.errors import absent_name
from proximo.networks.distributions.batches import BaseDistribution as BaseDistribution
from proximo.networks.distributions.batches import Bernoulli as Bernoulli
from proximo.networks.distributions.batches import Categorical as Categorical
from proximo.networks.distributions.batches import DiagonalGaussian as DiagonalGaussian
from proximo.networks.distributions.batches import MultiCategorical as MultiCategorical
from proximo.networks.distributions.batches import SquashedNormal as SquashedNormal

_ABSENT = frozenset({"NormalNoise", "OrnsteinUhlenbeckNoise", "TruncatedNormalNoise"})


def __getattr__(name: str) -> Any:
    raise absent_name(__name__, name, ": action noise belongs to off-policy agents" if name in _ABSENT else "")
