"""rllte's module path of ICM."""

from proximo.rllte.xplore.reward import ICM as ICM
