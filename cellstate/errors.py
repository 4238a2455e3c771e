"""Errors of layer 0. A rejected claim is not an error: it is a `Verdict`."""


class OmegaError(Exception):
    """Something a person can act on: the base of every error shown as ``error: what, where, what to do``."""


class BadInput(OmegaError):
    """The request is wrong in itself; nothing was sent to the store."""


class Refused(OmegaError):
    """The cell's state forbids the request; nothing was changed."""


class NotFound(Refused):
    """There is nothing of the name that a caller gave."""


class NotOwner(Refused):
    """The job belongs to another user."""


class Duplicate(Refused):
    """The name or id is taken by something else."""


class Overtaken(Refused):
    """Compare-and-set: the job's modify index is another than the one that was read."""


class JobLost(Refused):
    """The store lost the submission of a job that it had acknowledged."""

    @classmethod
    def of(cls, job: str, version: int, agreed: int, *, once: bool = False) -> "JobLost":
        """Return the error for a job that was submitted at a version, when `agreed` is the last one that is left.

        `once`: some of its tasks run at most once.
        """
        only_if = " only if it may run twice: with requeue: never its tasks may have run" if once else ""
        return cls(
            f"job {job}: submitted at version {version:,}; the store's history was cut after version {agreed:,} at a "
            f"failover or restart; submit it again{only_if}"
        )


class Fenced(Refused):
    """The scheduler's lease expired or a newer incarnation took its name."""


class HistoryCut(Fenced):
    """The store lost versions of the cell: an executor registers again, and compares what it runs with the cell."""


class StoreError(OmegaError):
    """The store cannot serve the request; nothing acknowledged was lost."""


class Unreachable(StoreError):
    """No answer from the server."""


class NotReplicated(StoreError):
    """The primary has a change, and fewer replicas than the cell requires: it is not acknowledged; repeat the call."""

    def __init__(self, state: str, remedy: str = "repeat the command") -> None:
        """`state`: who has the change; `remedy`: what to do once the replicas are connected."""
        super().__init__(f"{state}; connect the replicas, or see omega cell durability, and {remedy}")
        self.state = state


class StoreFull(StoreError):
    """The server refuses to grow (``maxmemory`` reached)."""


class CellGone(StoreError):
    """The store responds without the cell of this process: flushed, deleted, being restored, or replaced."""


class ReadOnly(StoreError):
    """The server refuses writes (a replica, or a failed background save)."""


class Forbidden(StoreError):
    """The server does not permit this to the user in the URL."""


class ScriptsMissing(StoreError):
    """The server has not got a script, and this user may not load it: a reader waits until another user does."""


class Unreadable(StoreError):
    """A record of the store cannot be read."""


class Unsuitable(StoreError):
    """The server or its stored data does not fit this version of Omega."""
