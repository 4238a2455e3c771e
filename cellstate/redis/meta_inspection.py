"""Reading the counters and settings of a cell for the audit."""

import re

from omega.cellstate import keys
from omega.cellstate.durability import Durability
from omega.cellstate.inspection import Inspection


def read_meta_field(inspection: Inspection, field: str, value: bytes) -> None:
    """Note a counter or setting. Raises one of UNREADABLE."""
    text = value.decode()
    if field not in keys.META:
        raise ValueError("no such counter; cellstate/keys.py lists them")
    inspection.meta.add(field)
    if field == "resources":
        if not re.fullmatch(r"[a-z][\w-]*(,[a-z][\w-]*)*", text):
            raise ValueError("not a list of names")
        inspection.resources = tuple(text.split(","))
    elif field == "ticks":
        if not re.fullmatch(r"\d+:\d+( \d+:\d+)*", text):
            raise ValueError("not a list of times and placement ids")
        inspection.ticks = [(int(at), int(last)) for at, last in (word.split(":") for word in text.split())]
    elif field == "durability":
        if Durability.parse(text) == Durability():
            raise ValueError("is left out where there is none")
    elif not re.fullmatch(r"0|[1-9]\d*", text):
        raise ValueError(f"{text!r} is not a number")
    else:
        inspection.counters[field] = int(text)
        if field == "schema" and int(text) != keys.SCHEMA:
            raise ValueError(f"is {value!r}, not {keys.SCHEMA}")
