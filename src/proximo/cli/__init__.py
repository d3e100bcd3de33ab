"""The command line: ``proximo train | evaluate | watch | plot | bench``."""
