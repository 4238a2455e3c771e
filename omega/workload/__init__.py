"""Workloads: drawn from published distributions, or read from files (`file`, `reference`); traces: `omega.traces`."""

from omega.workload.synthetic import DEMO, Mix, google_mix
from omega.workload.workload import Arrival, Workload

__all__ = ["DEMO", "Arrival", "Mix", "Workload", "google_mix"]
