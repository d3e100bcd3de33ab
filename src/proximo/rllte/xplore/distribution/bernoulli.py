"""rllte's module path of Bernoulli."""

from proximo.networks.distributions.batches import Bernoulli as Bernoulli
