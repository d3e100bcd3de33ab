"""The state of environments as plain data, for exact checkpoints."""
