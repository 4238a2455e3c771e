"""Bodies of changes that several routes share."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MOST_NAMES = 1_000
Amounts = dict[str, Annotated[str | int | float, Field(union_mode="left_to_right")]]
"""Amounts by resource, as in job files: 4, "500m", "2Gi"."""
Document = dict[str, Any]


def _no_truth(value: Any) -> Any:
    """Return a value; raises ValueError for true and false, which would be read as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is no number")  # noqa: TRY004 - what pydantic reports
    return value


Whole = Annotated[int, BeforeValidator(_no_truth)]
"""A whole number in a body."""


class Form(BaseModel):
    """Base of the bodies of changes."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Names(Form):
    """Things that are changed together, by their names."""

    names: list[str] = Field(min_length=1, max_length=MOST_NAMES)
