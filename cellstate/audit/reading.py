"""The primary records of a cell as the comparisons with its log read them."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from omega.cellstate.model import Described, Job, Run
from omega.cellstate.primary import Primary


class CellState:
    """The audited records, at `version`."""

    def __init__(self, primary: Primary) -> None:
        """Read `primary`."""
        self.primary, self.size, self.version, self.placements = (
            primary,
            primary.size,
            primary.version,
            primary.placements,
        )
        self.rows: Mapping[int, list[int]] = primary.rows
        self.jobs: Mapping[str, Job] = primary.jobs
        self.described: Mapping[int, Described] = primary.described
        self.bare: set[str] = set()

    def amounts(self, row: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return capacity and allocated amounts of a machine's record."""
        return self.primary.amounts(row)

    @cached_property
    def by_placement(self) -> dict[int, tuple[Run, ...]]:
        """Return the runs on machines by placement id: a live one, a leaving one, or both."""
        placements: dict[int, tuple[Run, ...]] = {}
        for run in self.primary.runs:
            placements[run.placement] = (*placements.get(run.placement, ()), run)
        return placements
