"""The audit of a live cell: an independent checker of the invariants of ARCHITECTURE.md."""

from omega.cellstate.audit.report import Report, verify
from omega.cellstate.audit.rules import Violation

__all__ = ["Report", "Violation", "verify"]
