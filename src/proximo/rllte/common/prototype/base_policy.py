"""rllte's module path of BasePolicy."""

from proximo.rllte.xploit.policy.base import BasePolicy as BasePolicy
