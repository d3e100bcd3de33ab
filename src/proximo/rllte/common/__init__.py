"""rllte's ``common``: the bases of agents, policies, encoders and storages."""

from proximo.rllte.common.logger import Logger as Logger
from proximo.rllte.common.timer import Timer as Timer
