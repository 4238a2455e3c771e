"""The cells of a store that can be opened, and why the others cannot."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from omega.cellstate.errors import OmegaError, Refused
from omega.cellstate.keys import ANY
from omega.cellstate.server import connect
from omega.cellstate.store import answering, connect_cell

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell

Answer = TypeVar("Answer")


@dataclass(slots=True)
class OpenCells:
    """Open cells by name; `skipped` has why others, or shards of a Cluster, cannot be read."""

    cells: "dict[str, RedisCell]" = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def ask(self, question: "Callable[[RedisCell], Answer]") -> dict[str, Answer]:
        """Return the answer of each cell; one that raises an OmegaError is closed and skipped from then on."""
        answers = {}
        for name, cell in list(self.cells.items()):
            try:
                answers[name] = question(cell)
            except OmegaError as error:
                self.skip(name, error)
        return answers

    def skip(self, name: str, error: OmegaError) -> None:
        """Close a cell and use it no longer."""
        self.skipped[name] = str(error)
        self.cells.pop(name).close()

    def check_some(self) -> None:
        """Raise Refused when no cell is left."""
        if not self.cells:
            told = "; ".join(f"{name}: {why}" for name, why in self.skipped.items())
            raise Refused(f"no cell can be used ({told})" if told else "the store has no cells; see omega cell create")

    def close(self) -> None:
        """Close all cells."""
        for cell in self.cells.values():
            cell.close()


def chosen_cells(name: str | None) -> Sequence[str] | None:
    """Return the names in ``--cell any`` (none: all cells) or ``--cell a,b``; None for the name of one cell."""
    if name is None or (name != ANY and "," not in name):
        return None
    return () if name == ANY else tuple(dict.fromkeys(each.strip() for each in name.split(",") if each.strip()))


def open_cells(url: str, names: Sequence[str] = ()) -> OpenCells:
    """Open cells of the store at `url`; without `names` all that answer.

    Each call to one of them is sent once, so a shard that is away costs no wait. Raises StoreError when the list of
    cells cannot be read.
    """
    found = OpenCells()
    if not names:
        client = connect(url, patient=False)
        try:
            names, found.skipped = answering(client, url)
        finally:
            client.close()
    for name in names:
        try:
            found.cells[name] = connect_cell(url, name, patient=False)
        except OmegaError as error:
            found.skipped[name] = str(error)
    return found


@contextmanager
def opened(url: str, names: Sequence[str] = ()) -> Iterator[OpenCells]:
    """Lend open cells, which are closed afterwards."""
    found = open_cells(url, names)
    try:
        yield found
    finally:
        found.close()
