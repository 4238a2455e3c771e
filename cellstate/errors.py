"""Errors of layer 0.

    OmegaError                 something a person can act on: what, where, what to do
    ├── BadInput               the request itself is wrong (a file, an amount, a name)
    ├── Refused                the cell's state forbids the request
    │   ├── Duplicate          the name or id is taken
    │   ├── Overtaken          it was modified concurrently
    │   └── Fenced             this incarnation of a scheduler may no longer commit
    └── StoreError             the store cannot serve the request
        ├── Unreachable        no answer from the server
        ├── StoreFull          the server is out of memory (``OOM``)
        ├── CellGone           the cell was deleted or replaced
        ├── ReadOnly           the server is a replica or refuses writes
        ├── Unreadable         a record that this version of Omega did not write
        └── Unsuitable         wrong version, wrong policy, or a newer schema

A rejected claim is not an error: it is a `Verdict`.
"""


class OmegaError(Exception):
    """Base of every error shown to a person as ``error: what, where, what to do``."""


class BadInput(OmegaError):
    """The request is wrong in itself; nothing was sent to the store."""


class Refused(OmegaError):
    """The cell's state forbids the request; nothing was changed."""


class Duplicate(Refused):
    """The name or id is taken by something else."""


class Overtaken(Refused):
    """Compare-and-set: the job's modify index is another than the one that was read."""


class Fenced(Refused):
    """The scheduler's lease expired or a newer incarnation took its name."""


class StoreError(OmegaError):
    """The store cannot serve the request; nothing acknowledged was lost."""


class Unreachable(StoreError):
    """No answer from the server."""


class StoreFull(StoreError):
    """The server refuses to grow (``maxmemory`` reached)."""


class CellGone(StoreError):
    """The store responds without the cell of this process: flushed, deleted, being restored, or replaced."""


class ReadOnly(StoreError):
    """The server refuses writes (a replica, or a failed background save)."""


class Unreadable(StoreError):
    """A record of the store cannot be read."""


class Unsuitable(StoreError):
    """The server or its stored data does not fit this version of Omega."""
