"""Mathematics: arrays in, arrays out; no networks, no input or output. State is in values that a caller holds."""
