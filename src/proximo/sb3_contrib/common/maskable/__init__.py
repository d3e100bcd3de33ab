"""Action masks."""

from proximo.other_libraries import names_from

__getattr__ = names_from(__name__, {})
