"""rllte's module path of MultiCategorical."""

from proximo.networks.distributions.batches import MultiCategorical as MultiCategorical
