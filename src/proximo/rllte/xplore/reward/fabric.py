"""rllte's module path of Fabric."""

from proximo.exploration import Fabric as Fabric
