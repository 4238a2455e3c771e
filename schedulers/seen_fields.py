"""What makes jobs alike: everything that a policy may read of them, by the tables of `omega.cellstate.schema`.

Of jobs that are alike one is tried for all (semantics 19). A field that all policies see by its table, and one that no
table has, is part of a job's shape. Others are part of it where a policy declares that it reads them (`reads`), and,
but for what each job has of its own (its name, the time of its submission), where a policy declares nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from functools import lru_cache
from operator import attrgetter
from typing import Any

from omega.cellstate.model import GroupStatus, Job
from omega.cellstate.schema import CHANGING, FIXED, GROUP, GROUP_SPEC, POLICY, SPEC, Field, Seen, SpecField
from omega.schedulers.constraints.demands import FIELDS

Part = tuple[str, Any]
"""A field and its value."""
_ATTRIBUTES = {"submitted": "submitted_ms", "duration": "duration_ms"}
"""Attributes of a job and its groups that have another name than the field of the record."""


Table = Sequence[Field] | Sequence[SpecField]


class SeenFields:
    """The fields of a job that policies see, beside the needs of its tasks and its demands."""

    def __init__(self, reads: frozenset[str] | None) -> None:
        """Compare what policies see that declare to read these fields; None: that declare nothing."""
        self._reads = reads
        self._job = _attributes(Job, self._seen(CHANGING, FIXED))
        self._group = _attributes(GroupStatus, self._seen(GROUP))
        self._hidden = {field.name for field in SPEC} - self._seen(SPEC) | {"groups"}
        self._hidden_of_group = {field.name for field in GROUP_SPEC} - self._seen(GROUP_SPEC) | {*FIELDS}
        self._of_job = attrgetter(*self._job)

    def _seen(self, *tables: Table) -> set[str]:
        shown = {Seen.ALL} if self._reads is not None else {Seen.ALL, Seen.DECLARED}
        fields = [field for table in tables for field in table]
        return {field.name for field in fields if field.seen in shown or field.name in (self._reads or ())}

    def of(self, job: Job, groups: Sequence[int]) -> tuple[Any, ...]:
        """Return the parts of a job with unplaced tasks in these groups."""
        record = self._of_job(job)
        if self._group:
            record = record, tuple(getattr(job.groups[group], name) for group in groups for name in self._group)
        return (record, tuple(self._written(job.spec, groups))) if job.spec else (record, ())

    def _written(self, spec: Mapping[str, Any], groups: Sequence[int]) -> Iterator[Part]:
        yield from _parts(spec, self._hidden)
        own = spec.get(POLICY)
        if self._reads and isinstance(own, Mapping):
            yield from _parts(own, own.keys() - self._reads)
        said = spec.get("groups") or ()
        for group in groups:
            if group < len(said) and isinstance(said[group], Mapping):
                yield from _parts(said[group], self._hidden_of_group)


@lru_cache(maxsize=64)
def seen_by(reads: frozenset[str] | None) -> SeenFields:
    """Return the fields that policies see which declare to read these; None: which declare nothing."""
    return SeenFields(reads)


def _attributes(of: type[Job | GroupStatus], names: Iterable[str]) -> tuple[str, ...]:
    """Return the attributes with these fields; some fields of records have none, and policies do not see them."""
    return tuple(name for each in sorted(names) if (name := _ATTRIBUTES.get(each, each)) in of.__annotations__)


def _parts(fields: Mapping[str, Any], hidden: AbstractSet[str]) -> Iterator[Part]:
    for name in sorted(fields):
        if name not in hidden:
            value = fields[name]
            yield name, value if isinstance(value, str) else repr(value)
