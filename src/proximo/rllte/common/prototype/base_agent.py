"""The base of agents in rllte's shape."""

from __future__ import annotations

from proximo.agents.modular import ModularAgent
from proximo.rllte.common.prototype.base_policy import BasePolicy


class BaseAgent(ModularAgent):
    """An environment and the modules that learn in it; :class:`OnPolicyAgent` trains them."""

    policy_kind = BasePolicy
