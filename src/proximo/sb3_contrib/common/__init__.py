"""What sb3-contrib calls ``common``."""
