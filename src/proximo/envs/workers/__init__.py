"""Environments in worker processes, watched and restarted."""
