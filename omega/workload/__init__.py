"""Workloads: drawn from published distributions, or read from a trace."""

from omega.workload.google2011 import read_google2011
from omega.workload.synthetic import DEMO, Mix, google_mix
from omega.workload.workload import Arrival, Workload

__all__ = ["DEMO", "Arrival", "Mix", "Workload", "google_mix", "read_google2011"]
