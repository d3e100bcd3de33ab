"""Speed against Stable-Baselines3 on the same work: ``python -m benchmarks.run``."""
