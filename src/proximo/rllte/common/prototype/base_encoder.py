"""rllte's module path of BaseEncoder."""

from __future__ import annotations

from proximo.networks.published_encoders import BaseEncoder as BaseEncoder
