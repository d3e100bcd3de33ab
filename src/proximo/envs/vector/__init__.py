"""Vector environments and their wrappers."""
