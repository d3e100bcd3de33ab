"""Everything that can be stepped, as a vector environment."""
