"""rllte's module path of RIDE."""

from proximo.rllte.xplore.reward import RIDE as RIDE
