"""Safe model files: a container without code, and values as JSON without import paths."""
