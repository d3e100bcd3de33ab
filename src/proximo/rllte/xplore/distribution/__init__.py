"""Action distributions, called as rllte calls them: ``Categorical()(logits)`` is the distribution of a batch."""

from typing import Any

from proximo.networks.distributions.batches import BaseDistribution as BaseDistribution
from proximo.networks.distributions.batches import Bernoulli as Bernoulli
from proximo.networks.distributions.batches import Categorical as Categorical
from proximo.networks.distributions.batches import DiagonalGaussian as DiagonalGaussian
from proximo.networks.distributions.batches import MultiCategorical as MultiCategorical
from proximo.networks.distributions.batches import SquashedNormal as SquashedNormal
from proximo.rllte.paths import absent


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
