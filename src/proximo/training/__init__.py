"""Around the loop: trainer, configuration, callbacks, loggers, evaluation, plots."""
