"""Episode statistics."""

from proximo.envs import Monitor, ResultsWriter, get_monitor_files, load_results
from proximo.envs.wrappers.monitor import LoadMonitorResultsError

__all__ = ["LoadMonitorResultsError", "Monitor", "ResultsWriter", "get_monitor_files", "load_results"]
