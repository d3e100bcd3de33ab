"""How good it is: evaluation, aggregates over runs and tasks, plots."""
