"""Reading for the audit what the store has of tasks and of jobs beside their records."""

import re

from omega.cellstate.inspection import Inspection
from omega.cellstate.tasks import unpack_progress

_OUTPUT = re.compile(r"\S+ \d+ \d+ (stdout|stderr|usage)")


def read_output_field(inspection: Inspection, field: str, _: bytes) -> None:
    """Note a task with stored output. Raises ValueError, as the others do."""
    if not _OUTPUT.fullmatch(field):
        raise ValueError("not job, group, task, stream")
    inspection.outputs[0].add(field)


def read_update_field(inspection: Inspection, field: str, value: bytes) -> None:
    """Note the state of the update of a job."""
    text = value.decode()
    if text != "rolling" and not text.startswith("stalled "):
        raise ValueError(f"{text!r} is not rolling, nor stalled with a reason")
    inspection.updates[field] = text


def read_copied_field(inspection: Inspection, field: str, value: bytes) -> None:
    """Note the kind of a job whose tasks may have copies."""
    inspection.copied[field] = value.decode()


def read_unsettled_field(_: Inspection, field: str, value: bytes) -> None:
    """Read the name of an agent that is to confirm what it runs."""
    if not field.startswith("agent/") or value != b"1":
        raise ValueError("not an agent, and 1")


def read_progress_field(_: Inspection, field: str, value: bytes) -> None:
    """Read how far tasks on a machine have come."""
    if not re.fullmatch(r"0|[1-9]\d*", field):
        raise ValueError(f"{field!r} is not a number")
    unpack_progress(value)
