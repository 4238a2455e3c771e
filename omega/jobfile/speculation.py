"""The field ``speculation`` of a job: when its tasks get copies (`schedulers/speculation.py`)."""

from typing import Any

from pydantic import BaseModel, Field, ValidationInfo

from omega.cellstate.model import Gang
from omega.jobfile.values import STRICT, Duration


def read_copied(value: Any) -> Any:
    """Read `speculation: true`: the default rules, and `false`: none."""
    return {} if value is True else None if value is False else value


class Copied(BaseModel):
    """When tasks of a job get copies: after a time, or compared with their siblings (`schedulers/speculation.py`)."""

    model_config = STRICT

    after: Duration | None = None
    factor: float = Field(2.0, ge=1, le=1_000)
    quantile: float = Field(0.75, gt=0, le=1)
    finished: float = Field(0.5, gt=0, le=1)
    copies: int = Field(0, ge=0, le=1_000_000)

    def spec(self) -> dict[str, Any]:
        """Return the stored field."""
        stated = self.model_dump(exclude_unset=True)
        return stated | ({"after": self.after / 1000} if self.after is not None else {})


def may_be_copied(value: Copied | None, info: ValidationInfo) -> Copied | None:
    """Refuse copies for jobs that they do not suit; the fields before it are in `info`."""
    of, wrong = info.data, ""
    if value is None:
        return value
    if of.get("kind") in ("service", "mapreduce") or of.get("update"):
        wrong = "tasks of services and workers of MapReduce do not end, so none is slow"
    elif of.get("requeue") == "never":
        wrong = "requeue: never places each task at most once"
    elif of.get("gang") and of["gang"].gang is not Gang.NO:
        wrong = "copies are placed one by one, and a gang as a whole"
    elif any(tasks.command and not tasks.repeatable for tasks in of.get("tasks", ())):
        raise ValueError("a copy runs the command twice, perhaps at once; write repeatable: true beside each command")
    if wrong:
        raise ValueError(f"{wrong}; leave speculation out")
    return value
