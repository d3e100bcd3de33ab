"""rllte's module path of Disagreement."""

from proximo.rllte.xplore.reward import Disagreement as Disagreement
