"""What all parts of a job file are made of: how strict models are, and values that layer 0 reads."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict

from omega.cellstate.durations import parse_duration
from omega.cellstate.errors import BadInput


def reading(read: Callable[[Any], Any], *, as_written: bool = False) -> Callable[[Any], Any]:
    """Return a validator that reads a value, and returns it as read or, for schedulers, as written."""

    def check(value: Any) -> Any:
        try:
            result = read(value)
        except BadInput as error:
            raise ValueError(str(error)) from None
        return value if as_written else result

    return check


Duration = Annotated[int, BeforeValidator(reading(parse_duration))]
STRICT = ConfigDict(extra="forbid", defer_build=True, strict=True, populate_by_name=True)
"""Unknown fields are refused, and types are strict: ``count: "5"`` is no number."""
