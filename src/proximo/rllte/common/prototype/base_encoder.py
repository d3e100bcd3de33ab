"""rllte's module path of BaseEncoder."""

from proximo.networks.published_encoders import BaseEncoder as BaseEncoder
