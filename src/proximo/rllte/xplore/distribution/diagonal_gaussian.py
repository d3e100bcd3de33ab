"""rllte's module path of DiagonalGaussian."""

from proximo.networks.distributions.batches import DiagonalGaussian as DiagonalGaussian
