"""What Stable-Baselines3 calls ``common``."""
