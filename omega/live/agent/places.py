"""Files of an agent in the state directory, readable by this user only.

agents/CELL/NAME/
lock      held while the agent lives
nonce     identifies the agent to the store (semantics 15)
lease     deadline of its tasks (lease_file.py)
guard.lock, guard.log    held by its guards, and their output (guard.py)
tasks/JOB.GROUP.TASK.PLACEMENT.SUBMITTED/    a task: see supervisor.py; work/ is its own directory
"""

from collections.abc import Iterator
from pathlib import Path
from re import compile as pattern
from typing import NamedTuple
from uuid import uuid4

from omega.cellstate.errors import BadInput, Duplicate, StoreError
from omega.file_lock import take_lock
from omega.live.agent.lease_file import write

Milliseconds = int
_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class PlacementKey(NamedTuple):
    """One placement of a task: another placement of the same task has another key (semantics 1).

    `submitted_ms` is the time at which its job was submitted, by which a job differs from another one of its id: a
    store that lost versions may give both ids again (semantics 16).
    """

    job: str
    group: int
    task: int
    placement: int
    submitted_ms: Milliseconds = 0

    @classmethod
    def read(cls, name: str) -> "PlacementKey":
        """Return the key of a directory name. Raises ValueError."""
        job, *numbers = name.rsplit(".", 4)
        return cls(job, *map(int, numbers))

    def __str__(self) -> str:
        return f"{self.job}.{self.group}.{self.task}.{self.placement}.{self.submitted_ms}"


class AgentPlaces:
    """The files of one agent below the state directory `state`."""

    def __init__(self, state: Path, cell: str, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise BadInput(f"agent name {name!r}: use 1 to 64 letters, digits, . _ -")
        self.state, self.name = state, name
        self.top = state / "agents" / cell / name
        self.tasks, self.lease = self.top / "tasks", self.top / "lease"

    def make(self) -> None:
        """Create the directories, for this user alone. Raises StoreError."""
        try:
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            for place in (self.state / "agents", self.top.parent, self.top, self.tasks):
                place.mkdir(mode=0o700, exist_ok=True)
                place.chmod(0o700)
        except OSError as error:
            what = f"agent {self.name}: no directory {self.top}: {error.strerror}"
            raise StoreError(f"{what}; set OMEGA_STATE to a directory of your own") from None

    def lock(self) -> int:
        """Take the agent's lock, held until the returned file is closed; Duplicate while another has it."""
        handle = take_lock(self.top / "lock")
        if handle is None:
            raise Duplicate(f"agent {self.name}: runs on this computer already; choose another name, or stop it")
        return handle

    def nonce(self) -> str:
        """Return the nonce that identifies the agent to the store; creates it if absent."""
        path = self.top / "nonce"
        if not path.exists():
            write(path, uuid4().hex)
            path.chmod(0o600)
        return path.read_text("utf-8")

    def task_keys(self) -> Iterator[PlacementKey]:
        """Yield the keys of existing task directories."""
        for entry in sorted(self.tasks.iterdir()) if self.tasks.is_dir() else []:
            try:
                yield PlacementKey.read(entry.name)
            except ValueError:
                continue  # not a task directory

    def task(self, key: PlacementKey) -> Path:
        """Return a task's directory."""
        return self.tasks / str(key)


def all_places(state: Path, cell: str) -> Iterator[AgentPlaces]:
    """Yield the files of every agent that this computer has had in a cell."""
    folder = state / "agents" / cell
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        yield AgentPlaces(state, cell, entry.name)
