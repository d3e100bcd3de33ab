"""Neural networks: features extractors and the actor-critic policy."""
