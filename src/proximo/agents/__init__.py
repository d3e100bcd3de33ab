"""The front door: algorithms as classes with keyword arguments, ``learn``, ``predict``, ``save`` and ``load``."""
