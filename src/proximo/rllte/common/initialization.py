"""rllte's module path of get_init_fn."""

from proximo.networks.initialization import get_init_fn as get_init_fn
