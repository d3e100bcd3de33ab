"""rllte's module path of E3B."""

from proximo.exploration import E3B as E3B
