"""Episode statistics."""

from __future__ import annotations

from proximo.envs import Monitor, ResultsWriter, get_monitor_files, load_results

__all__ = ["Monitor", "ResultsWriter", "get_monitor_files", "load_results"]
