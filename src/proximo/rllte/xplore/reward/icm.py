"""rllte's module path of ICM."""

from proximo.exploration import ICM as ICM
