"""rllte's module path of RIDE."""

from proximo.exploration import RIDE as RIDE
