"""Small environments for tests, and for trying things out."""
