"""The fields of a submitted job and of its task groups that only schedulers and executors read: those of `schema`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.plain_text import MOST_BYTES, MOST_STARTED, check_texts, size_of
from omega.cellstate.resources import shown
from omega.cellstate.schema import GROUP_SPEC, SPEC

_JOB, _GROUP = (frozenset(field.name for field in table) for table in (SPEC, GROUP_SPEC))


def check_spec(spec: Mapping[str, Any], job: str) -> None:
    """Refuse fields that jobs do not have, and texts that are not plain, in the job of a name. Raises BadInput."""
    if spec:
        _check(spec, _JOB, f"job {job}")


def check_starts(spec: Mapping[str, Any], groups: Sequence[Mapping[str, Any]], job: str) -> None:
    """Refuse commands that no program starts with: what the kernel limits is words, NAME=value, and all together.

    Raises BadInput, with the field.
    """
    around = 0
    for name, value in (spec.get("environment") or {}).items():
        size = size_of(f"{name}={value}")
        if size > MOST_BYTES:
            raise BadInput(
                f"job {job}: environment.{name}: {size:,} bytes with its name; the most is {MOST_BYTES:,}: put it into "
                "a file that the command reads"
            )
        around += size + PER_WORD
    places = [("", spec), *((f"tasks[{number}].", each) for number, each in enumerate(groups))]
    for field, command in (found for before, said in places for found in _commands(said, before)):
        size = around + sum(size_of(str(word)) + PER_WORD for word in command)
        if size > MOST_STARTED:
            raise BadInput(
                f"job {job}: {field}: {size:,} bytes with the environment; the most is {MOST_STARTED:,}: put some of "
                "it into a file that the command reads"
            )


PER_WORD = 9
"""Bytes that a word takes beyond its letters: its end and a pointer to it."""


def _commands(value: Any, field: str) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the commands within the fields of a job, with their places."""
    for name, each in value.items() if isinstance(value, Mapping) else ():
        if name == "command" and isinstance(each, list | tuple):
            yield f"{field}{name}", each
        elif name != "groups" and isinstance(each, Mapping):
            yield from _commands(each, f"{field}{name}.")


def check_group_spec(spec: Mapping[str, Any]) -> None:
    """Refuse fields that task groups do not have, and texts that are not plain. Raises BadInput."""
    if spec:
        _check(spec, _GROUP, "task group")


def _check(spec: Mapping[str, Any], known: frozenset[str], what: str) -> None:
    if not known.issuperset(spec):
        first = min(map(str, spec.keys() - known))
        raise BadInput(f"{what}: {shown(first)} is no field; a policy declares its own (policy, docs/job-fields.md)")
    check_texts(spec, what)
