"""rllte's module path of Disagreement."""

from proximo.exploration import Disagreement as Disagreement
