"""Changes of the limits on all jobs of a kind."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import BadInput
from omega.cellstate.model import MOST_PRECEDENCE, Limits
from omega.cellstate.resources import Dimensions, shown

if TYPE_CHECKING:
    from omega.cellstate.ports import JobStore, OperatorStore

FIELDS = ("resources", "jobs", "precedence")


def set_limits(
    cell: "JobStore | OperatorStore", kind: str, wanted: Mapping[str, Any], now_ms: int, by: str, *, clear: bool = False
) -> None:
    """Change the limits of a kind, see `changed`; with `clear` from none at all. Raises BadInput, Refused."""
    now = cell.kinds().get(kind)
    cell.set_limits(kind, changed(cell.dimensions, None if clear or now is None else now.limits, wanted), now_ms, by)


def changed(dimensions: Dimensions, now: Limits | None, wanted: Mapping[str, Any]) -> Limits:
    """Return limits with some fields replaced; None removes a limit.

    `wanted`: ``resources`` by name, as amounts of a job file ("4", "2Gi") or numbers; ``jobs``, the number of jobs with
    placed tasks; ``precedence``, the lowest and the highest. Absent fields stay. Raises BadInput.
    """
    for name in wanted:
        if name not in FIELDS:
            raise BadInput(f"limits: {shown(name)} is unknown; known are {', '.join(FIELDS)}")
    now = now or Limits((None,) * len(dimensions))
    amounts: Mapping[str, Any] = wanted.get("resources") or {}
    parsed = dimensions.parse({name: amount for name, amount in amounts.items() if amount is not None})
    dimensions.parse(dict.fromkeys(amounts, 0))  # reports unknown names among the limits to remove
    resources = tuple(
        old if name not in amounts else None if amounts[name] is None else parsed[i]
        for i, (name, old) in enumerate(zip(dimensions.names, now.resources, strict=True))
    )
    jobs = _number(wanted["jobs"]) if "jobs" in wanted else now.jobs
    return Limits(resources, jobs, _range(wanted["precedence"]) if "precedence" in wanted else now.precedence)


def _number(value: Any) -> int | None:
    if value is not None and (type(value) is not int or value < 0):
        raise BadInput(f"limits: jobs: {shown(str(value))} is not a number from 0 on, nor None")
    return value


def _range(value: Any) -> tuple[int, int]:
    if value is None:
        return 0, MOST_PRECEDENCE
    try:
        low, high = (int(each) for each in value)
    except (TypeError, ValueError):
        raise BadInput(f"limits: precedence: {shown(str(value))} is not a pair of numbers, such as [0, 99]") from None
    if not 0 <= low <= high <= MOST_PRECEDENCE:
        raise BadInput(f"limits: precedence: {low} to {high} is not a range within 0 to {MOST_PRECEDENCE}")
    return low, high
