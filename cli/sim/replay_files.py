"""The files of ``omega sim replay``: records, Batsim's jobs.csv, figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.resources import parse_amount
from omega.cli import render
from omega.cli.sim.executor import writable

if TYPE_CHECKING:
    from omega.replay.run import Replay

FORMS = (".svg", ".png")


class Written(NamedTuple):
    """The paths of files, notes about them, and why the export was refused."""

    paths: list[Path]
    notes: list[str]
    refused: Refused | None


@dataclass(frozen=True, slots=True)
class Outputs:
    """Which files are written, and where."""

    records: Path | None
    parquet: bool
    batsim: Path | None
    batsim_unit: str | None
    figures: Path | None

    def check(self) -> None:
        """Raise BadInput for a place that cannot be written or a missing extra, before a long run.

        Raises UsageError for a form of a file that is not requested.
        """
        if self.parquet and self.records is None:
            raise click.UsageError("--parquet is the form of --records DIRECTORY; give that too")
        if self.batsim_unit is not None and self.batsim is None:
            raise click.UsageError("--batsim-unit is for --batsim FILE.csv; give that too")
        if self.records is not None:
            writable(self.records / "jobs.csv")
            if self.parquet:
                from omega.replay.tables import check_parquet

                check_parquet()
        if self.batsim is not None:
            writable(self.batsim)
            self._unit()
        if self.figures is not None:
            import omega.experiments.plots.replay  # noqa: F401 - raises without matplotlib

            writable(self.figures / "figure")

    def write(self, replayed: "Replay", name: str, details: str, *, quiet: bool) -> Written:
        """Write the files. An export that is refused is no error yet: the other results are worth a long run."""
        paths, notes, refused = list[Path](), list[str](), None
        with render.busy("writing", quiet=quiet):
            if self.records is not None:
                paths += self._records(replayed, self.records)
            if self.figures is not None:
                paths += _figures(replayed, self.figures, details)
            if self.batsim is not None:
                try:
                    notes += self._batsim(replayed, self.batsim, name)
                    paths.append(self.batsim)
                except Refused as error:
                    refused = error
        return Written(paths, notes, refused)

    def _unit(self) -> int | None:
        """Return the cpu unit in millicores; None for an exact one. Raises BadInput."""
        if self.batsim_unit is None:
            return None
        unit = parse_amount("cpu", self.batsim_unit)
        if not unit:
            raise BadInput(f"--batsim-unit {self.batsim_unit}: want more than 0; write for example 1 or 500m")
        return unit

    def _records(self, replayed: "Replay", directory: Path) -> list[Path]:
        from omega.replay import tables

        columns = replayed.columns
        made = {
            "jobs": tables.jobs_table(columns, replayed.times),
            "tasks": tables.tasks_table(columns),
            "users": tables.users_table(replayed.fairness),
            "utilisation": tables.utilisation_table(replayed.utilisation),
        }
        write, ending = (tables.write_parquet, ".parquet") if self.parquet else (tables.write_csv, ".csv")
        paths = [directory / f"{name}{ending}" for name in made]
        for path, table in zip(paths, made.values(), strict=True):
            write(table, path)
        return paths

    def _batsim(self, replayed: "Replay", path: Path, name: str) -> list[str]:
        from omega.replay.batsim import export
        from omega.replay.tables import write_csv

        exported = export(replayed.columns, name, self._unit())
        write_csv(exported.table, path)
        return [f"{path}: {exported.units:,} cpu units", *(f"{path}: {note}" for note in exported.notes)]


def _figures(replayed: "Replay", directory: Path, details: str) -> list[Path]:
    from omega.experiments.plots.replay import draw_gantt, draw_utilisation

    gantt = [directory / f"gantt{ending}" for ending in FORMS]
    use = [directory / f"utilisation{ending}" for ending in FORMS]
    draw_gantt(replayed.columns, details, *gantt)
    draw_utilisation(replayed.columns, replayed.utilisation, details, *use)
    return [*gantt, *use]
