"""One simulation of a trace as plain values: the high-fidelity simulator, or the lightweight one on the same cell."""

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any, cast

from omega.cellstate.errors import BadInput
from omega.cellstate.transaction import Detection, Mode
from omega.schedulers.policies import NoPreemption
from omega.schedulers.presets import batch, service
from omega.schedulers.scheduler import Scheduler
from omega.simulation import Settings, Simulation
from omega.simulation.blocks import BLOCKS, Blocks
from omega.simulation.run import PLACEMENT
from omega.traces.formats import read_trace
from omega.traces.trace import Residents, Service, Trace, TraceOptions
from omega.workload.presets import PRESETS
from omega.workload.resampled import bootstrapped, drawn_independently, paced
from omega.workload.workload import Workload

SIMULATORS = ("high-fidelity", "lightweight")
AS_TRACED = "trace"
"""The cell as the trace has it; A and B are calibrated."""
CELLS = (AS_TRACED, *(name for name, preset in PRESETS.items() if preset.saturates_at is not None))
SERVICE = ("class", "priority")
RESIDENTS = ("keep", "scale", "thin")
PRESET = "preset"
CONSTRAINTS = ("trace", "synthetic", "none")
ENDS_READ = 1 << 16
"""Bytes at both ends of a file that its digest covers, beside its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRun:
    """A run. Times are seconds. Raises BadInput when a value makes no sense.

    As in the paper, machines do not fail and no task is evicted. Schedulers are the live presets: batch with first fit
    in a part of its own, service with scored placement; both apply constraints, and decide on one job at a time.
    """

    trace: str
    """Path of the trace."""
    hours: float | None = None
    """Hours of the trace to use; None: all."""
    simulator: str = "high-fidelity"
    cell: str = AS_TRACED
    """``A`` and ``B``: the trace at the pace at which one batch scheduler saturates at 2.5 and 6 times the arrivals."""
    service: str = "priority"
    """Service jobs have priority 9 or more, of any scheduling class, or of classes 2 and 3 (``class``)."""
    copies: int = 0
    """Service jobs are drawn from those of the trace, so many times as many; 0: they are those of the trace."""
    factor: float | None = None
    """Capacity of machines as a multiple of the trace's; None: the reader's default."""
    residents: str = "keep"
    constraints: str = "trace"
    seed: int = 0
    batch: int = 1
    t_job_batch: float = 0.1
    t_job_service: float = 0.1
    t_task: float = 0.005
    t_task_service: float | None = None
    detection: str = "fine"
    commit: str = "incremental"
    placement: str = PRESET
    """Placement of batch jobs: that of the live preset, or another one."""

    def __post_init__(self) -> None:
        for name, known in (
            ("simulator", SIMULATORS),
            ("cell", CELLS),
            ("service", SERVICE),
            ("residents", RESIDENTS),
            ("constraints", CONSTRAINTS),
            ("detection", [each.name.lower() for each in Detection]),
            ("commit", [each.name.lower() for each in Mode]),
            ("placement", (PRESET, *PLACEMENT)),
        ):
            if getattr(self, name) not in known:
                raise BadInput(f"trace run: {name} {getattr(self, name)!r}; want {', '.join(known)}")
        if self.hours is not None and not (isfinite(self.hours) and self.hours > 0):
            raise BadInput(f"trace run: {self.hours:g} hours; want more than 0")
        if not 0 <= self.copies <= 1_000:
            raise BadInput(f"trace run: copies {self.copies}; want 0 to 1,000")
        self._settings(1.0)
        self.options()

    def options(self) -> TraceOptions:
        """Return the options of the trace's reader. Raises BadInput."""
        return TraceOptions(
            seconds=None if self.hours is None else 3600 * self.hours,
            service=cast("Service", self.service), residents=cast("Residents", self.residents),
            constraints=cast("Any", self.constraints), factor=self.factor,
        )  # fmt: skip

    @property
    def weight(self) -> float:
        """How long it takes beside others of the trace, roughly."""
        return self.hours or 1.0

    def as_json(self) -> dict[str, Any]:
        """Return every parameter by name."""
        values = asdict(self)
        if self.placement == PRESET:  # results of runs without this parameter stay valid
            del values["placement"]
        return values

    def content(self) -> str:
        """Return a digest of the trace's files: names, sizes and both ends of each. Raises BadInput."""
        return _content(self.trace)

    def about(self) -> str:
        """Read the trace; return one line about it."""
        return self.workload()[0].about.partition("\n")[0]

    def workload(self) -> tuple[Workload, float]:
        """Return the workload and its seconds; the last is kept. Raises BadInput."""
        drawn = self.seed if self.copies or self.simulator == "lightweight" else 0
        return _workload(self.trace, self.options(), self.simulator, self.cell, self.copies, drawn)

    def document(self) -> dict[str, Any]:
        """Simulate; return the result as plain values, with sums over `BLOCKS` parts of the run."""
        workload, seconds = self.workload()
        settings = self._settings(seconds)
        own = None if self.simulator == "lightweight" else self._schedulers()
        simulation = Simulation(workload, settings, own=own)
        blocks = Blocks(seconds / BLOCKS)
        for each in workload.arrivals:
            blocks.arrived(each.job.kind, each.at_seconds, each.job.total)
        for simulated in simulation.simulated_schedulers:
            simulated.scheduler.instruments.append(blocks)
        return {**simulation.run().as_json(), "blocks": blocks.as_json()}

    def _settings(self, seconds: float) -> Settings:
        return Settings(
            days=seconds / 86_400, seed=self.seed, batch_schedulers=self.batch,
            t_job_batch=self.t_job_batch, t_job_service=self.t_job_service, t_task=self.t_task,
            t_task_service=self.t_task_service, detection=self._detection, commit=self._mode,
        )  # fmt: skip

    @property
    def _detection(self) -> Detection:
        return Detection[self.detection.upper()]

    @property
    def _mode(self) -> Mode:
        return Mode[self.commit.upper()]

    def _schedulers(self) -> list[Scheduler]:
        t_task = self.t_task if self.t_task_service is None else self.t_task_service
        quick = batch() if self.placement == PRESET else replace(batch(), placement=PLACEMENT[self.placement]())
        times = ((service(), self.t_job_service, t_task), (quick, self.t_job_batch, self.t_task))
        return [
            replace(
                each, preemption=NoPreemption(), jobs_per_call=1, t_job=t_job, t_task=t_task,
                detection=self._detection, mode=self._mode, rng=Random(self.seed), instruments=[],
            )
            for each, t_job, t_task in times
        ]  # fmt: skip


def pace_of(workload: Workload, seconds: float, saturates_at: float) -> float:
    """Return the pace at which so many times the batch jobs saturate one scheduler at 0.1 s and 5 ms."""
    tasks = [each.job.total for each in workload.arrivals if each.job.kind == "batch"]
    if not tasks:
        raise BadInput("trace: no batch jobs arrive, and calibrated cells need some; use the cell of the trace")
    decision = 0.1 + 0.005 * sum(tasks) / len(tasks)
    return seconds / len(tasks) / (saturates_at * decision)


@lru_cache(maxsize=1)
def _read(path: str, options: TraceOptions) -> Trace:
    return read_trace(path, options)


@lru_cache(maxsize=1)
def _workload(
    path: str, options: TraceOptions, simulator: str, cell: str, copies: int, seed: int
) -> tuple[Workload, float]:
    trace = _read(path, options)
    workload = replace(trace.workload, events=())
    seconds = trace.seconds if options.seconds is None else min(options.seconds, trace.seconds)
    if seconds <= 0 or not workload.arrivals:
        raise BadInput(f"trace {path}: no job arrives in it; use more hours or another trace")
    if copies:
        workload = bootstrapped(workload, "service", copies, seed, seconds)
    saturates_at = None if cell == AS_TRACED else PRESETS[cell].saturates_at
    if saturates_at is not None:
        pace = pace_of(workload, seconds, saturates_at)
        workload, seconds = paced(workload, pace), seconds / pace
    if simulator == "lightweight":
        workload = drawn_independently(workload, seed, seconds)
    return workload, seconds


@lru_cache
def _content(path: str) -> str:
    digest = blake2b(digest_size=16)
    root = Path(path)
    try:
        files = sorted(each for each in root.rglob("*") if each.is_file()) if root.is_dir() else [root]
        for file in files:
            size = file.stat().st_size
            digest.update(f"{file.relative_to(root)} {size}\n".encode())
            with file.open("rb") as stream:
                digest.update(stream.read(ENDS_READ))
                stream.seek(max(0, size - ENDS_READ))
                digest.update(stream.read(ENDS_READ))
    except OSError as error:
        raise BadInput(f"trace {path}: cannot be read ({error.strerror})") from None
    return digest.hexdigest()
