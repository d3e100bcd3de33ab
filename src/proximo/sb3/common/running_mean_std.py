"""Running statistics."""

from proximo.functional.statistics import RunningMeanStd as RunningMeanStd
