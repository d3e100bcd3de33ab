"""rllte's module path of VanillaMlpEncoder."""

from proximo.networks.published_encoders import VanillaMlpEncoder as VanillaMlpEncoder
