"""First in, first out: by submission."""

from dataclasses import dataclass

from omega.schedulers.policies import Ordering


@dataclass(frozen=True, slots=True)
class Fifo(Ordering):
    """Jobs in order of submission; a job that backs off comes back to its place when it is due."""
