"""rllte's module path of RaffinCombinedEncoder."""

from proximo.networks.published_encoders import RaffinCombinedEncoder as RaffinCombinedEncoder
