"""rllte's module path of RE3."""

from proximo.rllte.xplore.reward import RE3 as RE3
