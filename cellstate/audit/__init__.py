"""The judge of a live cell: the invariants of ARCHITECTURE.md, checked with books of its own."""

from cellstate.audit.report import Report, verify
from cellstate.audit.rules import Violation

__all__ = ["Report", "Violation", "verify"]
