"""What makes results of older versions reproducible."""

from proximo.other_libraries import names_from

__getattr__ = names_from(__name__, {})
