"""One simulation as plain values: settings and workload, as stored in a file of results."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from omega.cellstate.cell import Cell
from omega.cellstate.errors import BadInput
from omega.cellstate.transaction import Detection, Mode
from omega.simulation import Result, Settings, Simulation
from omega.simulation.two_level import AUTHORS, Offers
from omega.workload import presets
from omega.workload.reference import read_reference
from omega.workload.workload import FILE_ENDINGS, LARGEST_CPU, LARGEST_MEMORY, Workload

OFFERS = {"paper": Offers(), "authors": AUTHORS}
FILE_MACHINES, FILE_CPU, FILE_MEMORY = 1_000, 4_000, 16 * 1024
"""The default cell of a workload from a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A run. The fields are the parameters that can be varied; times are seconds, cpu millicores, memory MiB.

    None means the default: of the preset's cell, of Settings. Raises BadInput when a value makes no sense.
    """

    architecture: str = "shared-state"
    workload: str = "C"
    """A preset (A, B, C) or the path of a file.csv, or of a file.yaml with machines, pools and jobs."""
    pools: str | None = None
    """Path of a file of pools; jobs without a pool belong to its leaf pools in turn."""
    days: float = 1.0
    seed: int = 0
    rate: float = 1.0
    """Arrivals of batch jobs relative to the preset's."""
    batch: int = 1
    service: int = 1
    t_job_batch: float = 0.1
    t_job_service: float = 0.1
    t_task: float = 0.005
    t_task_service: float | None = None
    detection: str = "fine"
    commit: str = "incremental"
    placement: str = "random"
    sharing: str | None = None
    offers: str | None = None
    release_moves_number: bool | None = None
    reference_rules: bool = False
    machines: int | None = None
    cpu: int | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        self.settings()
        if self.from_file:
            if self.rate != 1:
                raise BadInput(f"rate {self.rate:g}: {self.workload} gives the arrival times; rate is for presets")
        else:
            presets.preset(self.workload)
        if not (isfinite(self.rate) and self.rate > 0):
            raise BadInput(f"rate {self.rate:g}: want a number above 0")
        for name, value in (("machines", self.machines), ("cpu", self.cpu), ("memory", self.memory)):
            if value is not None and self.has_machines:
                raise BadInput(f"{name} {value}: {self.workload} names its machines; change them there")
            if value is not None and value < 1:
                raise BadInput(f"{name} {value}: want at least 1")

    @property
    def from_file(self) -> bool:
        """Whether the workload is read from a file."""
        return self.workload.endswith((".csv", *FILE_ENDINGS)) or "/" in self.workload

    @property
    def has_machines(self) -> bool:
        """Whether the workload's file names its machines."""
        return self.workload.endswith(FILE_ENDINGS)

    @property
    def weight(self) -> float:
        """How long a run takes beside others, roughly: jobs arrive in proportion to days and rate."""
        return self.days * self.rate

    def settings(self) -> Settings:
        """Return the settings of the simulation. Raises BadInput."""
        same: dict[str, Any] = {name: getattr(self, name) for name in SAME}
        same |= {
            "detection": _named(Detection, "detection", self.detection),
            "commit": _named(Mode, "commit", self.commit),
        }
        offers = None if self.offers is None else _chosen("offers", self.offers, OFFERS)
        return Settings(**same, batch_schedulers=self.batch, service_schedulers=self.service, offers=offers)

    def make_workload(self) -> Workload:
        """Return the workload. The last one is kept: runs that differ in settings alone share theirs."""
        if self.from_file:
            workload = _read(self.workload, self.machines, self.cpu, self.memory)
        else:
            size = presets.Size(
                machines=self.machines or presets.MACHINES,
                largest_cpu=self.cpu or LARGEST_CPU,
                largest_memory=self.memory or LARGEST_MEMORY,
            )
            workload = _draw(self.workload, self.seed, self.days, self.rate, size)
        if self.pools is None:
            return workload
        from omega.workload.file import with_pools  # noqa: PLC0415 - presets need neither YAML nor pydantic

        return with_pools(workload, self.pools)

    def run(self, *, cell: Cell | None = None, progress: Callable[[float], None] | None = None) -> Result:
        """Simulate; `cell` and `progress` as in Simulation. Raises BadInput."""
        return Simulation(self.make_workload(), self.settings(), cell=cell, progress=progress).run()

    def content(self) -> str:
        """Return a digest of the workload's file; ``""`` for a preset. Raises BadInput."""
        if not self.from_file:
            return ""
        try:
            return blake2b(Path(self.workload).read_bytes(), digest_size=16).hexdigest()
        except OSError as error:
            raise BadInput(f"workload {self.workload}: cannot be read ({error.strerror})") from None

    def about(self) -> str:
        """Read or draw the workload; return one line about it."""
        return self.make_workload().about.partition("\n")[0]

    def document(self) -> dict[str, Any]:
        """Simulate; return the result as plain values."""
        return self.run().as_json()

    def as_json(self) -> dict[str, Any]:
        """Return every parameter by name."""
        return asdict(self)

    def but(self, values: Mapping[str, Any]) -> "Configuration":
        """Return the same with other values for some parameters, which may be words. Raises BadInput."""
        return replace(self, **{name: parsed(name, value) for name, value in values.items()})


SAME = {each.name for each in fields(Configuration)} & {each.name for each in fields(Settings)} - {"offers"}
"""Parameters that are settings of the same name."""
PARAMETERS: dict[str, type] = {
    name: next(each for each in (get_args(hint) or (hint,)) if each is not NoneType)
    for name, hint in get_type_hints(Configuration).items()
}
"""Parameters and what their values are."""
WANTED = {bool: "true or false", int: "a whole number", float: "a number"}


def parsed(name: str, value: Any) -> Any:
    """Return a value of a parameter, from words or a number. BadInput when there is no such parameter or value."""
    if name not in PARAMETERS:
        raise BadInput(f"unknown parameter {name!r}; known: {', '.join(PARAMETERS)}")
    kind = PARAMETERS[name]
    if value is None or kind is str:
        return value if value is None else str(value)
    try:
        if kind is bool:
            return {"true": True, "yes": True, "false": False, "no": False}[str(value).lower()]
        number = float(value)
        if kind is int and not number.is_integer():
            raise ValueError
        return int(number) if kind is int else number
    except (KeyError, ValueError, OverflowError):
        raise BadInput(f"{name}={value}: want {WANTED[kind]}") from None


def _named(values: type[Detection] | type[Mode], what: str, name: str) -> Any:
    return _chosen(what, name, {each.name.lower(): each for each in values})


def _chosen(what: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise BadInput(f"unknown {what} {name!r}; known: {', '.join(known)}")
    return known[name]


@lru_cache(maxsize=1)
def _read(path: str, machines: int | None, cpu: int | None, memory: int | None) -> Workload:
    if path.endswith(FILE_ENDINGS):
        from omega.workload.file import read_workload  # noqa: PLC0415 - presets need neither YAML nor pydantic

        return read_workload(path)
    return read_reference(path, machines or FILE_MACHINES, (cpu or FILE_CPU, memory or FILE_MEMORY))


@lru_cache(maxsize=1)
def _draw(name: str, seed: int, days: float, rate: float, size: presets.Size) -> Workload:
    return presets.draw(name, seed, days, rate=rate, size=size)
