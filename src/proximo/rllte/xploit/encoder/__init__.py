"""Encoders, from observations to features."""

from proximo.networks.published_encoders import EspeholtResidualEncoder as EspeholtResidualEncoder
from proximo.networks.published_encoders import IdentityEncoder as IdentityEncoder
from proximo.networks.published_encoders import MnihCnnEncoder as MnihCnnEncoder
from proximo.networks.published_encoders import PathakCnnEncoder as PathakCnnEncoder
from proximo.networks.published_encoders import RaffinCombinedEncoder as RaffinCombinedEncoder
from proximo.networks.published_encoders import TassaCnnEncoder as TassaCnnEncoder
from proximo.networks.published_encoders import VanillaMlpEncoder as VanillaMlpEncoder
