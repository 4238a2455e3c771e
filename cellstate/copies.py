"""Groups for copies of slow tasks (semantics 41): which jobs may have them."""

from collections.abc import Sequence
from typing import Protocol

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import Resources


class _Group(Protocol):
    @property
    def need(self) -> Resources: ...
    @property
    def copies(self) -> bool: ...
    @property
    def optional(self) -> bool: ...
    @property
    def once(self) -> bool: ...


def check_copies(name: str, groups: Sequence[_Group], *, gang: bool) -> None:
    """Refuse a job whose groups for copies do not fit. Raises BadInput."""
    for at, group in enumerate(groups):
        if not group.copies:
            continue
        if gang:
            raise BadInput(f"job {name}: is a gang, and copies are placed one by one: tasks of a gang get none")
        original = groups[at - 1] if at else group
        if original.copies or tuple(original.need) != tuple(group.need):
            raise BadInput(f"job {name}: a group for copies follows the group of the tasks, with the same need")
        if original.optional or original.once:
            raise BadInput(f"job {name}: tasks of an optional or an at-most-once group get no copies")
