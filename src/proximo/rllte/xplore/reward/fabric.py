"""rllte's module path of Fabric."""

from proximo.rllte.xplore.reward import Fabric as Fabric
