"""rllte's module path of PseudoCounts."""

from proximo.exploration import PseudoCounts as PseudoCounts
