"""Pure mathematics: arrays in, arrays out; no state, no input or output."""
