"""The measured cells of the Omega paper as workloads: C, drawn from the public trace; A and B, calibrated.

C is the cell of that trace. All of it is measured there (tables/README.md) and fitted to nothing. A and B
were never published. They are C at another *pace*: jobs arrive that much more often and run that much
shorter, and half of that again, as in cells of twice the size; else the cell would be full before its
scheduler is busy. The pace is the one parameter, fitted to where the paper saw one batch scheduler
saturate (Omega §4.3: 2.5 times and 6 times the arrivals); nothing else about A and B is claimed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.workload.quantiles import pairs, quantiles, shares
from omega.workload.synthetic import Mix, draw_jobs, google_mix
from omega.workload.workload import LARGEST_CPU, LARGEST_MEMORY, Arrival, Workload, array_stream, request

DAY = 86_400.0
MACHINES = 12_477
"""Machines that are up when the trace begins."""
FILL = 0.6
"""How full the cell is when the simulation begins, in its scarcest dimension (Omega §4, table 2)."""
SERVICE_SHARE = shares("resident_service_share")
"""How much of the cpu and memory that running residents of the trace request is requested by service jobs."""
DECISION_SECONDS = 0.1 + 0.005 * quantiles("batch_tasks_per_job").mean
"""Mean decision time of a batch job with the paper's t_job and t_task (Omega §4)."""
CALIBRATED_HOLD = 0.5
"""Resources held by the arriving jobs of a calibrated cell at rate 1, relative to C's."""
EARLIER = 1 << 32
"""Added to the seed for jobs drawn before the beginning."""
RESIDENTS_AT_ONCE = 64
"""Residents are drawn so many at a time."""


def pace(saturates_at: float) -> float:
    """Return the pace at which this multiple of the arrivals saturates one batch scheduler."""
    return quantiles("batch_interarrival_seconds").mean / (saturates_at * DECISION_SECONDS)


@dataclass(frozen=True, slots=True)
class Preset:
    """A cell of the paper. `saturates_at` is the landmark that a calibrated one was fitted to."""

    name: str
    pace: float = 1.0
    saturates_at: float | None = None

    @property
    def duration(self) -> float:
        """How long tasks run, relative to C's."""
        return 1.0 if self.saturates_at is None else CALIBRATED_HOLD / self.pace

    @property
    def label(self) -> str:
        """The name as it is shown: whether it was measured or calibrated."""
        return f"{self.name} ({'measured' if self.saturates_at is None else 'calibrated'})"


PRESETS = {preset.name: preset for preset in (Preset("A", pace(2.5), 2.5), Preset("B", pace(6.0), 6.0), Preset("C"))}


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the cell: machines, and the largest machine (millicores, MiB).

    Jobs arrive at a smaller cell as often as at the whole one; their tasks run shorter in proportion, so
    that they hold the same share of it.
    """

    machines: int = MACHINES
    largest_cpu: int = LARGEST_CPU
    largest_memory: int = LARGEST_MEMORY


def preset(name: str) -> Preset:
    """Find a preset by its name. BadInput names those there are."""
    if name not in PRESETS:
        raise BadInput(f"workload {name!r}: no such preset; known: {', '.join(PRESETS)}, or give a FILE.csv")
    return PRESETS[name]


def draw(name: str, seed: int, days: float, *, rate: float = 1.0, size: Size | None = None) -> Workload:
    """Draw so many days of a preset; `rate` multiplies the arrivals of batch jobs alone.

    The cell is about 60 % full when it begins and, at rate 1, stays so: part of that are jobs that arrived
    before and end in their time, the rest outlives the run. Raises BadInput when no request fits a machine.
    """
    size, chosen = size or Size(), preset(name)
    mix = Mix(
        seconds=days * DAY,
        rate=chosen.pace * rate,
        service_rate=1 / rate,
        duration=size.machines / MACHINES * chosen.duration,
        largest_cpu=size.largest_cpu,
        largest_memory=size.largest_memory,
    )
    arriving = google_mix(seed, size.machines, mix)
    recent = _recent(seed, arriving.machines, replace(mix, rate=chosen.pace, service_rate=1.0))
    lasting = _lasting(seed, arriving.machines, recent, mix, ends_ms=round((days + 1) * DAY * 1000))
    resident = sum(each.job.total for each in (*recent, *lasting))
    fitted = (
        "measured on Google's 2011 trace, fitted to nothing"
        if chosen.saturates_at is None
        else f"calibrated: C at {chosen.pace:.2f} times the pace, fitted to saturation at {chosen.saturates_at:g}x"
    )
    about = (
        f"{chosen.label}: {fitted}; arrivals of batch jobs times {rate:g}; {resident:,} tasks there at the beginning"
    )
    return Workload(arriving.machines, [*recent, *lasting], arriving.arrivals, f"{about}\n{arriving.about}")


def _recent(seed: int, machines: Sequence[MachineSpec], mix: Mix) -> list[Arrival]:
    """Return jobs that arrived before the beginning, at rate 1, and still run, with their remaining durations."""
    longest = max(float(quantiles(f"{kind}_task_seconds").values[-1]) for kind in ("batch", "service")) * mix.duration
    return draw_jobs(seed + EARLIER, machines, replace(mix, seconds=longest)).running(longest)


def _lasting(
    seed: int, machines: Sequence[MachineSpec], recent: Sequence[Arrival], mix: Mix, ends_ms: int
) -> list[Arrival]:
    """Jobs that outlive the run, drawn until the cell is as full as it is to be."""
    has = [sum(machine.capacity[i] for machine in machines) for i in (0, 1)]
    held = [0.0, 0.0]

    def hold(group: TaskGroup) -> None:
        for i, amount in enumerate(group.need):
            held[i] += amount * group.count

    for arrival in recent:
        hold(arrival.job.groups[0])
    sizes = sorted({(m.capacity[0] / mix.largest_cpu, m.capacity[1] / mix.largest_memory) for m in machines})
    lasting: list[Arrival] = []
    for kind in ("service", "batch"):
        room = [FILL * has[i] * SERVICE_SHARE[i] if kind == "service" else FILL * has[i] - held[i] for i in (0, 1)]
        for tasks, cpu, memory in _residents(array_stream(seed, f"{kind}/residents"), kind, sizes):
            need = (request(cpu, mix.largest_cpu), request(memory, mix.largest_memory))
            count = int(min(max(1, round(tasks)), room[0] // need[0], room[1] // need[1]))
            if count < 1:
                break
            room = [room[i] - need[i] * count for i in (0, 1)]
            group = TaskGroup(need, count, ends_ms)
            hold(group)
            number = len(lasting)
            lasting.append(Arrival(0.0, JobSpec(f"resident-{number}", f"resident/{number}", kind, (group,))))
    return lasting


def _residents(
    rng: np.random.Generator, kind: str, sizes: list[tuple[float, float]]
) -> Iterator[tuple[float, float, float]]:
    """Yield the number of tasks of a job and the cpu and memory of each, as shares, without end."""
    counts, wanted = quantiles(f"{kind}_tasks_per_job"), pairs(f"{kind}_requests").within(sizes)
    while True:
        uniform = rng.random((RESIDENTS_AT_ONCE, 2))
        yield from zip(counts.at(uniform[:, 0]).tolist(), *wanted.at(uniform[:, 1]).T.tolist(), strict=True)
