"""rllte's module path of E3B."""

from proximo.rllte.xplore.reward import E3B as E3B
