"""rllte's module path of IdentityEncoder."""

from proximo.networks.published_encoders import IdentityEncoder as IdentityEncoder
