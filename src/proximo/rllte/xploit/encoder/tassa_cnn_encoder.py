"""rllte's module path of TassaCnnEncoder."""

from proximo.networks.published_encoders import TassaCnnEncoder as TassaCnnEncoder
