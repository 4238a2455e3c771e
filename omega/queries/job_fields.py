"""The fields that the policies of a kind declare for its jobs, as a client knows them."""

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import BadInput

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job
    from omega.queries.working_copy import Members
    from omega.schedulers.job_fields import JobField

PUBLISHED = "job_fields"
"""The figure of a scheduler with its declarations."""


def declarations_text(published: Sequence[Mapping[str, Any]]) -> str:
    """Return the fields that a scheduler published in a line; the error for those that this Omega cannot read."""
    from omega.schedulers.job_fields import JobField

    try:
        return " · ".join(JobField.from_json(each).about() for each in published)
    except BadInput as error:
        return str(error)


def values_text(cell: "Cell", job: "Job") -> str:
    """Return the values of a job's own fields as in its file: ``deadline: 30m, tier: gold``."""
    from omega.cellstate.schema import POLICY

    own = job.spec.get(POLICY) or {}
    known = {each.name: each for each in KindFields(cell).of(job.kind) or ()} if own else {}
    return ", ".join(f"{name}: {known[name].text(value) if name in known else value}" for name, value in own.items())


class KindFields:
    """The declared fields by kind. Reads the cell once, when the first kind is asked for, unless `members` is given.

    The live schedulers of a kind decide: they published their declarations when they registered. Without one it is the
    scheduler of the kind that left last, then the installed one of that name.
    """

    def __init__(self, cell: "Cell", members: "Members | None" = None) -> None:
        """Read nothing yet."""
        self.cell, self._members = cell, members
        self._known: dict[str, Sequence[JobField] | None] = {}

    @cached_property
    def _live(self) -> Mapping[str, list[Mapping[str, Any]]]:
        found: dict[str, list[Mapping[str, Any]]] = {}
        members = self.cell.schedulers.members() if self._members is None else self._members
        for name, (_, alive, figures) in sorted(members.items()):
            if alive and PUBLISHED in figures:
                found.setdefault(name.partition("/")[0], []).append(figures)
        return found

    @cached_property
    def _left(self) -> Mapping[str, Mapping[str, Any]]:
        """The figures of the scheduler of each kind that wrote its own last."""
        own = [(name, figures) for name, figures in self.cell.schedulers.figures().items() if PUBLISHED in figures]
        return {
            name.partition("/")[0]: figures for name, figures in sorted(own, key=lambda each: each[1].get("at_ms", 0))
        }

    def of(self, kind: str) -> "Sequence[JobField] | None":
        """Return the fields of a kind; None when neither the cell nor an installed package knows them."""
        if kind not in self._known:
            self._known[kind] = self._read(kind)
        return self._known[kind]

    def _read(self, kind: str) -> "Sequence[JobField] | None":
        from omega.schedulers.job_fields import JobField, merged

        published = self._live.get(kind) or ([self._left[kind]] if kind in self._left else [])
        if published:
            return merged([JobField.from_json(each) for each in figures[PUBLISHED]] for figures in published)
        from omega.schedulers.registry import RESTRICT

        return _installed(kind, os.environ.get(RESTRICT), tuple(sys.path))


@lru_cache(maxsize=64)
def _installed(kind: str, *_: object) -> "Sequence[JobField] | None":
    """Return the fields of the installed scheduler of a kind; the other arguments are what the answer depends on."""
    from omega.schedulers import registry

    if kind not in registry.offers(registry.SCHEDULERS):
        return None
    try:
        return tuple(registry.scheduler(kind).job_fields)
    except BadInput:
        return None
