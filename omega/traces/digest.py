"""A digest of a trace: equal for equal workloads, whatever the files were called."""

from collections.abc import Iterable
from hashlib import sha256

import numpy as np

from omega.traces.trace import Trace
from omega.workload.workload import Arrival


def trace_digest(trace: Trace) -> str:
    """Return a digest of the machines, jobs, durations and events of a trace, and of its counted defects."""
    digest, workload = sha256(), trace.workload
    for machine in workload.machines:
        digest.update(repr((machine.name, machine.capacity, sorted(machine.attributes.items()))).encode())
    for arrival in (*workload.residents, *workload.arrivals):
        digest.update(repr((arrival.at_seconds, arrival.job)).encode())
        for column in _columns(arrival):
            digest.update(np.ascontiguousarray(column).tobytes())
    digest.update(repr((workload.dimensions, list(workload.events), workload.pools)).encode())
    digest.update(repr([(defect.rule, defect.count) for defect in trace.defects]).encode())
    return digest.hexdigest()


def _columns(arrival: Arrival) -> Iterable[np.ndarray[tuple[int, ...], np.dtype[np.integer]]]:
    return (*arrival.durations, *arrival.machines)
