"""Reading for the audit what the store has of machines beside their records."""

import re

from omega.cellstate.inspection import Inspection
from omega.cellstate.pages import OVER, Shape
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


def read_shape_field(inspection: Inspection, field: str, value: bytes) -> None:
    """Read a number of machines of one shape, or the list of those that held too much (lua/parts/shapes.lua)."""
    text = value.decode()
    if field == OVER:
        if not re.fullmatch(r" (\d+ )+", text):
            raise ValueError(f"{text!r} is not a list of machines")
        inspection.over = [int(word) for word in text.split()]
        return
    shape = Shape.named(field)
    if str(shape) != field or not re.fullmatch(r"[1-9]\d*", text):
        raise ValueError(f"{text!r} of {field!r} is not a number of machines of a state, a kind and a capacity")
    inspection.shapes[shape] = int(text)


def read_static_field(inspection: Inspection, field: str, value: bytes) -> None:
    """Note the name and the attributes of a machine."""
    name, _, packed = value.partition(b"\n")
    attributes = records.unpack(packed)
    if not all(isinstance(word, str) for pair in attributes.items() for word in pair):
        raise ValueError("attributes are not text")
    if not re.fullmatch(r"0|[1-9]\d*", field):
        raise ValueError(f"{field!r} is not a number")
    inspection.described[int(field)] = name.decode(), tuple(sorted(attributes.items()))
