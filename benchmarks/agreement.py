"""Our figures beside those of the authors' simulator, on the same day of jobs.

The day (day.csv) is too large to be kept here; their results are cases/results.json. A row of that file is
a configuration and, for each figure, mean and spread over seeds. Ours agree when the mean over as many seeds is no
further away than three standard deviations, 1 % or 1e-5, whichever is most.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.transaction import Detection, Mode
from omega.simulation import Result, Settings, Simulation
from omega.simulation.result import OfKind
from omega.workload.reference import read_reference
from omega.workload.workload import Workload

MACHINES, CAPACITY = 1_000, (4_000, 16 * 1024)
ARCHITECTURES = {
    "omega": "shared-state",
    "mono-multi": "monolithic-multi",
    "mono-single": "monolithic-single",
    "mesos": "two-level",
}
DETECTIONS = {None: Detection.FINE, "resource-fit": Detection.FINE, "sequence-numbers": Detection.COARSE}
MODES = {None: Mode.INCREMENTAL, "incremental": Mode.INCREMENTAL, "all-or-nothing": Mode.GANG}
FIGURES: Mapping[str, Callable[[OfKind], float]] = {
    "conflict_fraction": lambda kind: kind.conflict_fraction.median,
    "busyness": lambda kind: kind.busyness.median,
    "wasted_busyness": lambda kind: kind.wasted.median,
    "mean_wait_first_s": lambda kind: kind.wait_mean,
    "p90_wait_first_s": lambda kind: kind.wait_p90,
    "jobs_fully_scheduled": lambda kind: kind.jobs_scheduled,
    "tasks_scheduled": lambda kind: kind.tasks_scheduled,
}
"""The compared figures of each kind of job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure: theirs, and ours over `seeds` runs."""

    name: str
    ours: float
    ours_sd: float
    reference: float
    reference_sd: float

    @property
    def tolerance(self) -> float:
        """How far apart the means may be."""
        return max(3 * self.reference_sd, 0.01 * abs(self.reference), 1e-5)

    @property
    def agrees(self) -> bool:
        """Whether they are no further apart."""
        return abs(self.ours - self.reference) <= self.tolerance


def case(name: str) -> Path:
    """The path of a committed case: ``tiny.csv``, ``results.json``."""
    return Path(str(files("benchmarks") / "cases" / name))


def find_day() -> Path | None:
    """Where the day of jobs is: in the folder OMEGA_SHARED names, else in `shared` beside the checkout; or None."""
    beside = Path(str(files("benchmarks"))).parent.parent / "shared"
    path = Path(os.environ.get("OMEGA_SHARED") or beside) / "cases" / "reference-simulator" / "day.csv"
    return path if path.is_file() else None


@cache
def day(path: Path | None = None) -> Workload:
    """The day of jobs, for its cell of 1,000 machines. Raises BadInput."""
    path = path or find_day()
    if path is None:
        where = "name it with --workload, or set OMEGA_SHARED to the folder that holds cases/"
        raise BadInput(f"day.csv: the day of jobs to compare is not kept with the program; {where}")
    return read_reference(path, MACHINES, CAPACITY)


def rows(path: Path | None = None) -> Iterator[Mapping[str, Any]]:
    """The rows of results. Raises BadInput when the file is not of this form."""
    for name in ("day_monolithic_multi_path", "day_t_job_service_sweep"):
        yield from _part(path, name)


def timings(path: Path | None = None) -> Sequence[Mapping[str, Any]]:
    """How long their simulator took. Raises BadInput when the file is not of this form."""
    return _part(path, "timing")


def _part(path: Path | None, name: str) -> Sequence[Mapping[str, Any]]:
    path = path or case("results.json")
    try:
        found: Sequence[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))[name]
    except OSError as error:
        raise BadInput(f"results {path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"results {path}: not of the form of benchmarks/cases/results.json ({error!r})") from None
    return found


def settings_of(row: Mapping[str, Any], seed: int) -> Settings:
    """Return the configuration of a row for our simulator."""
    return Settings(
        architecture=ARCHITECTURES[row["arch"]],
        seed=seed,
        batch_schedulers=row["n_batch_schedulers"],
        t_job_batch=row["t_job_batch"],
        t_job_service=row["t_job_service"],
        t_task=row["t_task"],
        detection=DETECTIONS[row["conflict_mode"]],
        commit=MODES[row["transaction_mode"]],
        reference_rules=True,
    )


def figures_of(result: Result) -> dict[str, float]:
    """The figures of a run under the names of results.json."""
    found = {f"{name}_{kind}": float(of(each)) for kind, each in result.kinds.items() for name, of in FIGURES.items()}
    if result.settings.architecture.startswith("monolithic"):
        found["busyness"] = found["busyness_batch"]  # of the one scheduler there is
    return found | {"avg_cpu_util": result.utilisation["cpu"], "avg_mem_util": result.utilisation["memory"]}


def compare(row: Mapping[str, Any], results: Sequence[Result]) -> list[Figure]:
    """Every figure that both have."""
    runs = [figures_of(result) for result in results]
    return [
        Figure(
            name=name,
            reference=row[name]["mean"],
            reference_sd=row[name]["sd"],
            ours=fmean(values),
            ours_sd=pstdev(values),
        )
        for name in runs[0]
        if name in row
        for values in [[run[name] for run in runs]]
    ]


def measure_row(row: Mapping[str, Any], seeds: Sequence[int], workload: Workload) -> list[Figure]:
    """Run a row with these seeds and compare."""
    return compare(row, [Simulation(workload, settings_of(row, seed)).run() for seed in seeds])
