"""The algorithms as classes with keyword arguments, ``learn``, ``predict``, ``save`` and ``load``."""
