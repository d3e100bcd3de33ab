"""rllte's module path of EspeholtResidualEncoder."""

from proximo.networks.published_encoders import EspeholtResidualEncoder as EspeholtResidualEncoder
