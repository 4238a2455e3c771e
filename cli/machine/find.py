"""Finding machines by what people call them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cellstate.errors import Refused
from cli import words

if TYPE_CHECKING:
    from cellstate.model import Machine
    from cellstate.redis import RedisCell


def find(cell: "RedisCell", asked: Sequence[str]) -> "list[Machine]":
    """The machines that are meant, in the order asked: by name, by index, by the only name that begins so.

    Raises Refused for the first that is unknown or not the only one.
    """
    machines = cell.machines()
    by_name = {machine.name: machine for machine in machines}
    by_index = {str(machine.index): machine for machine in machines}
    found: dict[int, Machine] = {}
    for text in asked:
        machine = by_name.get(text) or by_index.get(text)
        if machine is None:
            near = [each for each in machines if each.name.startswith(text)]
            if len(near) != 1:
                raise Refused(_unknown(cell.name, text, [each.name for each in near]))
            machine = near[0]
        found[machine.index] = machine
    return list(found.values())


def _unknown(cell: str, text: str, near: Sequence[str]) -> str:
    if near:
        begin = f"{len(near):,} machines of cell {cell} begin so ({words.listing(near)})"
        return f"machine {text!r}: {begin}; write more of the name"
    return f"machine {text!r}: not in cell {cell}; see omega machine list"


def state_word(machine: "Machine") -> str:
    """``up``, ``drained`` or ``down``; with ``over`` when it holds more than it has."""
    return machine.state.name.lower() + (", over" if machine.over else "")
