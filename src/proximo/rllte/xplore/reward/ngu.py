"""rllte's module path of NGU."""

from proximo.exploration import NGU as NGU
