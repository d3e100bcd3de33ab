"""Reports of trainings: what run folders hold, as one HTML page or served while they train."""
