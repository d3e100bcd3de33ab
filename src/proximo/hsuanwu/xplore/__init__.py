"""Exploration: intrinsic rewards, augmentations, distributions."""
