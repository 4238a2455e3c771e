"""Amounts of resources as integer vectors over a cell's named dimensions.

Cpu is counted in millicores, memory in MiB, everything else in its smallest unit.
Amounts stay below 10^14, the largest integer a Lua script writes exactly without
formatting (docs/decisions/0001).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from cellstate.errors import BadInput

Resources = tuple[int, ...]

LARGEST = 10**14 - 1
MOST_DIMENSIONS = 12

_MIB = {"Ki": Decimal(1) / 1024, "Mi": Decimal(1), "Gi": Decimal(1024), "Ti": Decimal(1024**2)}
_COUNT = {"": Decimal(1), "k": Decimal(1000), "M": Decimal(1000**2), "G": Decimal(1000**3)}


def _number(text: str, name: str, original: object) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise BadInput(f"{name}: {original!r} is not an amount; write for example 500m, 2, 256Mi or 1Gi") from None
    if not value.is_finite():
        raise BadInput(f"{name}: {original!r} is not a finite amount")
    return value


def parse_amount(name: str, amount: str | float) -> int:
    """Return `amount` of the resource `name` in its smallest unit, rounded up.

    ``cpu`` takes cores (``2``, ``0.5``) or millicores (``500m``); ``memory`` takes bytes with a
    binary suffix (``256Mi``, ``1Gi``) and plain numbers as MiB; others take plain counts.
    Raises BadInput when it is no amount, negative, or above 10^14 - 1.
    """
    text = str(amount).strip()
    if name == "cpu":
        value = _number(text[:-1], name, amount) if text.endswith("m") else _number(text, name, amount) * 1000
    elif name == "memory":
        unit = text[-2:]
        value = _number(text[:-2], name, amount) * _MIB[unit] if unit in _MIB else _number(text, name, amount)
    else:
        suffix = text[-1:] if text[-1:] in ("k", "M", "G") else ""
        value = _number(text[: len(text) - len(suffix)], name, amount) * _COUNT[suffix]
    if value < 0:
        raise BadInput(f"{name}: {amount!r} is negative; amounts start at 0")
    if value > LARGEST:
        raise BadInput(f"{name}: {amount!r} is too large; the most is {LARGEST} of the smallest unit")
    whole = int(value)
    return whole if whole == value else whole + 1


def format_amount(name: str, amount: int) -> str:
    """Write `amount` (smallest unit) the way people write it; `parse_amount` reads it back."""
    if name == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name == "memory":
        for unit, size in (("Ti", 1024**2), ("Gi", 1024)):
            if amount and amount % size == 0:
                return f"{amount // size}{unit}"
        return f"{amount}Mi"
    return str(amount)


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

    def format(self, vector: Sequence[int]) -> dict[str, str]:
        """Return `vector` as {name: text}."""
        return {name: format_amount(name, amount) for name, amount in zip(self.names, vector, strict=True)}

    def numbers(self, vector: Sequence[int]) -> dict[str, int]:
        """Return `vector` as {name: amount in the smallest unit}."""
        return dict(zip(self.names, map(int, vector), strict=True))
