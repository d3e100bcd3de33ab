"""rllte's module path of RE3."""

from proximo.exploration import RE3 as RE3
