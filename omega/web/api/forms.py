"""Bodies of changes that several routes share."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

MOST_NAMES = 1_000
Amounts = dict[str, Annotated[str | int | float, Field(union_mode="left_to_right")]]
"""Amounts by resource, as in job files: 4, "500m", "2Gi"."""
Document = dict[str, Any]


class Form(BaseModel):
    """Base of the bodies of changes."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Names(Form):
    """Things that are changed together, by their names."""

    names: list[str] = Field(min_length=1, max_length=MOST_NAMES)
