"""rllte's module path of PseudoCounts."""

from proximo.rllte.xplore.reward import PseudoCounts as PseudoCounts
