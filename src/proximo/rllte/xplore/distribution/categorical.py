"""rllte's module path of Categorical."""

from proximo.networks.distributions.batches import Categorical as Categorical
