"""Encoders, from observations to features."""

from typing import Any

from proximo.networks.published_encoders import EspeholtResidualEncoder as EspeholtResidualEncoder
from proximo.networks.published_encoders import IdentityEncoder as IdentityEncoder
from proximo.networks.published_encoders import MnihCnnEncoder as MnihCnnEncoder
from proximo.networks.published_encoders import PathakCnnEncoder as PathakCnnEncoder
from proximo.networks.published_encoders import RaffinCombinedEncoder as RaffinCombinedEncoder
from proximo.networks.published_encoders import TassaCnnEncoder as TassaCnnEncoder
from proximo.networks.published_encoders import VanillaMlpEncoder as VanillaMlpEncoder
from proximo.rllte.paths import absent


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
