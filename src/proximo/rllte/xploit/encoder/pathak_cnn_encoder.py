"""rllte's module path of PathakCnnEncoder."""

from proximo.networks.published_encoders import PathakCnnEncoder as PathakCnnEncoder
