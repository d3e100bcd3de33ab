"""rllte's module path of MnihCnnEncoder."""

from proximo.networks.published_encoders import MnihCnnEncoder as MnihCnnEncoder
