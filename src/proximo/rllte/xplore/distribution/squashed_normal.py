"""rllte's module path of SquashedNormal."""

from proximo.networks.distributions.batches import SquashedNormal as SquashedNormal
