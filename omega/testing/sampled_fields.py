"""Fields of job files for the scenes: those that a policy declares, with different values."""

from collections.abc import Mapping, Sequence
from typing import Any

from omega.cellstate.schema import POLICY
from omega.schedulers.job_fields import JobField, declared
from omega.schedulers.policies import with_wrapped

SAMPLES = 4
"""Different values of each field."""
RANGES: Mapping[str, tuple[float, float]] = {"number": (0, 100), "duration": (1, 3_600), "size": (1 << 20, 1 << 30)}
"""Range of a field without bounds, in the unit of its type."""


def sampled(fields: Sequence[Mapping[str, Any]], policy: object) -> Sequence[Mapping[str, Any]]:
    """Return the fields that a contract states, else samples of those that the policy declares (`job_fields`)."""
    own = declared(*with_wrapped(policy))
    if fields or not own:
        return fields or ({},)
    some = [{POLICY: {each.name: value(each, number) for each in own}} for number in range(SAMPLES)]
    return some if any(each.required for each in own) else [*some, {}]


def value(field: JobField, number: int) -> Any:
    """Return one of `SAMPLES` values of a field, as a job stores it."""
    if field.type == "bool":
        return bool(number % 2)
    if field.type == "choice":
        return field.choices[number % len(field.choices)]
    if field.type == "text":
        return f"text-{number}"
    low, high = RANGES[field.type]
    low = low if field.least is None else field.least
    high = max(low, high) if field.most is None else field.most
    found = low + (high - low) * number / (SAMPLES - 1)
    return int(found) if field.type == "size" else found
