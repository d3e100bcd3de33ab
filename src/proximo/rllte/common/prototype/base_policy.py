"""rllte's module path of BasePolicy."""

from __future__ import annotations

from proximo.rllte.xploit.policy.base import BasePolicy as BasePolicy
