"""Action masks."""
