"""For rllte's scripts: replace ``rllte`` by ``proximo.rllte`` in their imports."""

from __future__ import annotations
