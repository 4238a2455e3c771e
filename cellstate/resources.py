"""Amounts of resources as integer vectors over a cell's named dimensions.

Cpu is counted in millicores, memory in MiB, everything else in its smallest unit. Cpu and memory are rounded down, what
machines have and what tasks need alike, so that parts of a whole fit: two of 12GB into 24GB
(docs/decisions/0089-amounts-rounded-down.md).
Amounts stay below 10^14, the largest integer a Lua script writes exactly without
formatting (docs/decisions/0001).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from omega.cellstate.errors import BadInput

Resources = tuple[int, ...]

LARGEST = 10**14 - 1
LARGEST_COUNT = 2**32 - 1
BIG, MOST_TOGETHER = 4 * 10**9, 5 * 10**15
"""Where a machine has more than `BIG` of a resource, all have at most `MOST_TOGETHER`: sums stay below 2^53."""
MOST_DIMENSIONS = 12
SLOTS = "user_slots"
"""The resource that counts tasks, in cells that have it: a task that states no amount takes one."""
UNBOUNDED, UNBOUNDED_WORD = BIG, "unbounded"
"""Slots of a machine that states none, and their text."""

MIB = 1 << 20
MEMORY_BYTES = "memory_bytes"
"""Field of a task group's spec: the memory of a task in bytes, where it is not a number of whole MiB."""
MOST_SHOWN = 40
"""Maximum number of characters of a wrong amount in a message."""

BYTES = {
    "B": 1,
    **{f"{unit}{b}": 1000**i for i, unit in enumerate("KMGTP", 1) for b in ("", "B")},
    **{f"{unit}i{b}": 1024**i for i, unit in enumerate("KMGTP", 1) for b in ("", "B")},
    "k": 1000,
    "kB": 1000,
}
"""Bytes per unit: `1G` and `1GB` are 10^9 (SI), `1Gi` and `1GiB` are 2^30 (IEC 80000-13)."""
_MOST_EXPONENT = 30
_COUNT = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3}
_CPU = {"": Decimal(1000), "m": Decimal(1)}
_AMOUNT = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?)([A-Za-z]*)", re.ASCII)


def shown(value: object) -> str:
    """Return a wrong value as a message repeats it: its first letters, in quotes when it is text."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


def parse_bytes(text: str) -> int:
    """Return a size in bytes, rounded up: ``64Ki``, ``1.5G``, ``10MB``. Raises BadInput when it has no unit."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or match[2] not in BYTES or Decimal(match[1]) < 0:
        raise BadInput(f"{shown(text)} is not a size; write for example 64Ki, 10Mi or 1Gi")
    return _whole(Decimal(match[1]), BYTES[match[2]], "", text)


def _whole(number: Decimal, unit: int | Decimal, name: str, original: object, *, down: bool = False) -> int:
    """Return number × unit, rounded up, or `down` to at least 1. BadInput when it is negative or above 10^14 - 1."""
    where = f"{name}: " if name else ""
    if number < 0:
        raise BadInput(f"{where}{shown(original)} is negative; amounts start at 0")
    value = number * unit if number.adjusted() < _MOST_EXPONENT else LARGEST + 1
    if value > LARGEST:
        raise BadInput(f"{where}{shown(original)} is too large; the most is {LARGEST} of the smallest unit")
    whole = int(value)
    if down:
        return whole or int(value > 0)
    return whole if whole == value else whole + 1


def parse_amount(name: str, amount: str | float) -> int:
    """Return `amount` of the resource `name` in its smallest unit: cpu and memory rounded down, others up.

    An amount above 0 is at least 1.
    ``cpu`` takes cores (``2``, ``0.5``) or millicores (``500m``); ``memory`` takes bytes with a unit (``256Mi``,
    ``1Gi``, ``1G``: `BYTES`), never a bare number but 0; others take plain counts, or ``k``, ``M``, ``G`` of them, and
    ``user_slots`` also ``unbounded``.
    Raises BadInput when it is no amount, negative, or above 10^14 - 1.
    """
    try:
        return _parsed(name, amount)
    except TypeError:  # a list, or another value that is no key
        return _parsed(name, str(amount))


@lru_cache(maxsize=4096, typed=True)
def _parsed(name: str, amount: str | float) -> int:
    text = str(amount).strip()
    if name == SLOTS and text == UNBOUNDED_WORD:
        return UNBOUNDED
    if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        raise BadInput(f"{name}: {shown(amount)} is not a finite amount")
    match = _AMOUNT.fullmatch(text)
    units = _CPU if name == "cpu" else {"": MIB, **BYTES} if name == "memory" else _COUNT
    if match is None or match[2] not in units:
        raise BadInput(f"{name}: {shown(amount)} is not an amount; write for example 500m, 2, 256Mi or 1Gi")
    number, unit = Decimal(match[1]), match[2]
    if name != "memory":
        return _whole(number, units[unit], name, amount, down=name == "cpu")
    if not unit and number > 0:
        bare = text[:20]
        raise BadInput(f"memory: {shown(amount)} has no unit; write {bare}Mi (MiB) or {bare}M (10^6 bytes)")
    return _whole(number, Decimal(units[unit]) / MIB, name, amount, down=True)


def memory_as_written(amounts: Mapping[str, str | float]) -> dict[str, int]:
    """Return `MEMORY_BYTES` of a task that needs `amounts`; nothing where its memory is a number of whole MiB.

    Tasks are placed by MiB; what is enforced is the amount as written. The amounts are ones that `parse_amount` takes.
    """
    match = _AMOUNT.fullmatch(str(amounts.get("memory", 0)).strip())
    size = 0 if match is None or not match[2] else int(Decimal(match[1]) * BYTES[match[2]])
    return {MEMORY_BYTES: size} if size % MIB else {}


def largest_sum(needs: Iterable[tuple[Sequence[int], int]]) -> int:
    """Return the largest sum of a resource over `tasks` tasks of each need."""
    return max(map(sum, zip(*([amount * count for amount in need] for need, count in needs), strict=False)), default=0)


def format_amount(name: str, amount: int) -> str:
    """Return `amount` (smallest unit) as text with a unit; `parse_amount` reads it back."""
    if name == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name == "memory":
        for unit, size in (("Ti", 1024**2), ("Gi", 1024)):
            if amount and amount % size == 0:
                return f"{amount // size}{unit}"
        return f"{amount}Mi"
    return UNBOUNDED_WORD if name == SLOTS and amount >= UNBOUNDED else str(amount)


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The cell's resource names, in the order of every vector."""

    names: tuple[str, ...] = ("cpu", "memory")

    def __post_init__(self) -> None:
        if not self.names or len(self.names) > MOST_DIMENSIONS or len(set(self.names)) != len(self.names):
            raise BadInput(f"resources: want 1 to {MOST_DIMENSIONS} different names, got {list(self.names)}")
        for name in self.names:
            if not name.replace("_", "").replace("-", "").isalnum():
                raise BadInput(f"resources: {name!r} is not a name; use letters, digits, - and _")

    def __len__(self) -> int:
        return len(self.names)

    def parse(self, amounts: Mapping[str, str | float]) -> Resources:
        """Return the vector of `amounts`; a name left out counts 0. Raises BadInput."""
        for name in amounts:
            if name not in self.names:
                raise BadInput(f"unknown resource {name!r}; this cell has {', '.join(self.names)}")
        return tuple(parse_amount(name, amounts[name]) if name in amounts else 0 for name in self.names)

    def parse_need(self, amounts: Mapping[str, str | float]) -> Resources:
        """Return what a task needs: as `parse`, but one slot where it states none. Raises BadInput."""
        return self.parse(self._with_slots(amounts, 1))

    def parse_capacity(self, amounts: Mapping[str, str | float]) -> Resources:
        """Return what a machine has: as `parse`, but unbounded slots where it states none. Raises BadInput."""
        return self.parse(self._with_slots(amounts, UNBOUNDED))

    def _with_slots(self, amounts: Mapping[str, str | float], slots: int) -> Mapping[str, str | float]:
        return {SLOTS: slots, **amounts} if SLOTS in self.names else amounts

    def format(self, vector: Sequence[int]) -> dict[str, str]:
        """Return `vector` as {name: text}."""
        return {name: format_amount(name, amount) for name, amount in zip(self.names, vector, strict=True)}

    def numbers(self, vector: Sequence[int]) -> dict[str, int]:
        """Return `vector` as {name: amount in the smallest unit}."""
        return dict(zip(self.names, map(int, vector), strict=True))
