"""The fields of a submitted job and of its task groups that only schedulers and executors read: those of `schema`."""

from collections.abc import Mapping
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.plain_text import check_texts
from omega.cellstate.resources import shown
from omega.cellstate.schema import GROUP_SPEC, SPEC

_JOB, _GROUP = (frozenset(field.name for field in table) for table in (SPEC, GROUP_SPEC))


def check_spec(spec: Mapping[str, Any], job: str) -> None:
    """Refuse fields that jobs do not have, and texts that are not plain, in the job of a name. Raises BadInput."""
    if spec:
        _check(spec, _JOB, f"job {job}")


def check_group_spec(spec: Mapping[str, Any]) -> None:
    """Refuse fields that task groups do not have, and texts that are not plain. Raises BadInput."""
    if spec:
        _check(spec, _GROUP, "task group")


def _check(spec: Mapping[str, Any], known: frozenset[str], what: str) -> None:
    if not known.issuperset(spec):
        first = min(map(str, spec.keys() - known))
        raise BadInput(f"{what}: {shown(first)} is no field; a policy declares its own (policy, docs/job-fields.md)")
    check_texts(spec, what)
