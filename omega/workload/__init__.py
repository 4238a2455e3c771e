"""Workloads: drawn from published distributions, or read from files and traces (`google2011`, `file`, `reference`)."""

from omega.workload.synthetic import DEMO, Mix, google_mix
from omega.workload.workload import Arrival, Workload

__all__ = ["DEMO", "Arrival", "Mix", "Workload", "google_mix"]
