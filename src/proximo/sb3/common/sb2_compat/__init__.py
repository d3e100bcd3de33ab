"""What makes results of older versions reproducible."""
