"""rllte's module path of NGU."""

from proximo.rllte.xplore.reward import NGU as NGU
