"""Reading what operators set of machines for the audit."""

import re

from omega.cellstate.inspection import Inspection
from omega.cellstate.redis import records


def read_operator_field(inspection: Inspection, field: str, value: bytes) -> None:
    """Note what operators set of one machine. Raises one of UNREADABLE."""
    settings, amounts = records.read_settings(value), value.partition(b"\n")[0].decode()
    if not field.isdecimal() or not re.fullmatch(r"(-|\d+)( (-|\d+))*", amounts):
        raise ValueError(f"machine {field!r}, amounts {amounts!r}: not a number and amounts")
    if len(settings.amounts) != inspection.dimensions:
        raise ValueError("has not an amount for each resource")
    words: list[object] = [*settings.attributes, *(text for text in settings.attributes.values() if text is not None)]
    if not all(isinstance(word, str) for word in words):
        raise ValueError("attributes are not text")
    inspection.settings[int(field)] = settings
