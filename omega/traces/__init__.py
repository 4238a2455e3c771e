"""Published traces of clusters, read as workloads: docs/traces.md."""

from omega.traces.formats import READERS, read_trace, reader_of
from omega.traces.trace import Defect, Trace, TraceOptions, TraceReader

__all__ = ["READERS", "Defect", "Trace", "TraceOptions", "TraceReader", "read_trace", "reader_of"]
