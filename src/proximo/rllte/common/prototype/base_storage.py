"""rllte's module path of BaseStorage."""

from __future__ import annotations

from proximo.rllte.xploit.storage.base import BaseStorage as BaseStorage
