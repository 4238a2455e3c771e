"""Alibaba's GPU trace of 2023 (openb): nodes with GPUs of several models, pods with whole GPUs or a fraction of one."""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.resources import Resources, shown
from omega.traces import csv_blocks
from omega.traces.alibaba_devices import (
    DEVICE,
    GPU_DIMENSIONS,
    MODEL,
    MOST_DEVICES,
    SHARED,
    GpuNode,
    machines_of,
    shared_devices,
)
from omega.traces.names import Names
from omega.traces.text_rows import RowError, lines, refuse
from omega.traces.trace import Defects, Trace, TraceOptions, percentiles
from omega.workload.workload import Arrival, JobEvent, Workload

NODES, PODS = "openb_node_list", "openb_pod_list"
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time",
    "deletion_time", "scheduled_time",
)  # fmt: skip
PRECEDENCE = {"BE": 0, "Burstable": 1, "LS": 2, "Guaranteed": 3}
SERVICE = ("LS", "Guaranteed")
_MOST = 9 * 10**10
T = TypeVar("T")
NEVER_SCHEDULED, NO_END, ENDS_FIRST, EARLY, TWICE, OUT_OF_ORDER, PART_OF_SEVERAL, NO_PART, TOO_LARGE, ZERO, NO_QOS = (
    "never-scheduled", "no-end", "ends-before-start", "starts-before-submission", "name-twice", "out-of-order",
    "fraction-of-several", "no-fraction", "too-large", "zero-length", "no-qos",
)  # fmt: skip
RULES = {
    **csv_blocks.RULES,
    NEVER_SCHEDULED: "pods never scheduled: they arrive, and are stopped when they were deleted",
    NO_END: "pods that run, or whose end is missing, when the trace ends: they run as long as was seen",
    ENDS_FIRST: "pods deleted before they were scheduled: they run for 0 s",
    EARLY: "pods scheduled before they were created: created then, wait unknown",
    ZERO: "pods that ran for 0 s: kept, they end when they start",
    TWICE: "rows with a name that an earlier row has: another pod",
    OUT_OF_ORDER: "pods created earlier than the row before them: sorted by creation",
    PART_OF_SEVERAL: "pods that ask for a fraction of several GPUs: for all of each",
    NO_PART: "pods that ask for a GPU and none of its thousandths: for all of it",
    TOO_LARGE: "pods that fit no machine of the cell: left out",
    NO_QOS: "pods of an unknown class of service: best effort",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod: request, models that it accepts (none: any), and its times in seconds; -1: missing."""

    place: str
    name: str
    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...]
    qos: str
    phase: str
    created: float
    deleted: float
    scheduled: float

    @property
    def fraction(self) -> bool:
        """Whether it asks for a part of one GPU."""
        return self.gpus == 1 and self.milli < DEVICE

    @property
    def need(self) -> Resources:
        """Resources of its task."""
        return (self.cpu, self.memory, self.milli if self.fraction else DEVICE * self.gpus)


class AlibabaReader:
    """Reads the lists of nodes and pods of Alibaba's GPU trace."""

    name = "alibaba-gpu-2023"
    title = "Alibaba GPU trace 2023 (openb_node_list*.csv, openb_pod_list*.csv)"
    rules = RULES

    def recognises(self, path: Path) -> bool:
        """Return whether it is a list of pods, or a directory with one or with a list of nodes."""
        if path.is_dir():
            return any(each.name.startswith((NODES, PODS)) for each in path.iterdir())
        return path.name.startswith((NODES, PODS))

    def read(self, path: Path, options: TraceOptions) -> Trace:
        """Read a directory, or a list of pods with the nodes beside it. Raises BadInput with file and row."""
        defects = Defects(RULES)
        node_file, pod_file = _files(path)
        skip = options.skip_bad_rows
        nodes = list(_read(node_file, NODE_COLUMNS, _node, defects, skip=skip))
        pods = list(_read(pod_file, POD_COLUMNS, _pod, defects, skip=skip))
        if not nodes or not pods:
            raise BadInput(f"{pod_file if nodes else node_file}: no row; fetch the file again")
        return _Made(pod_file, options, nodes, pods, defects).trace()


def _files(path: Path) -> tuple[Path, Path]:
    """Return the files of nodes and pods. Raises BadInput when one is missing, or several are there."""
    directory = path if path.is_dir() else path.parent
    nodes, pods = (sorted(directory.glob(f"{name}*.csv*")) for name in (NODES, PODS))
    if path.name.startswith(PODS):
        pods = [path]
    nodes = [each for each in nodes if "all_node" in each.name] or nodes
    for found, what in ((nodes, f"{NODES}*.csv"), (pods, f"{PODS}*.csv")):
        if not found:
            raise BadInput(f"trace {path}: no {what} in {directory}; fetch it")
        if len(found) > 1:
            raise BadInput(f"trace {path}: {len(found)} files {what}; they are traces of their own: name one")
    return nodes[0], pods[0]


def _read(
    path: Path, wanted: Sequence[str], make: Callable[[str, Mapping[str, str]], T], defects: Defects, *, skip: bool
) -> Iterator[T]:
    """Yield what `make` makes of the rows of a file whose first row names its columns, in any order."""
    header: list[str] = []
    for number, text in lines(path, defects, skip=skip):
        fields = next(csv.reader([text]), [])
        if not header:
            header = [name.strip().lstrip("\ufeff") for name in fields]
            if lacking := [name for name in wanted if name not in header]:
                raise BadInput(f"{path}:{number}: no column {lacking[0]}; want {','.join(wanted)}")
        elif fields:
            place = f"{path}:{number}"
            try:
                if len(fields) != len(header):
                    raise RowError(f"{len(fields)} fields; want {len(header)}")
                yield make(place, dict(zip(header, fields, strict=True)))
            except (RowError, BadInput) as error:
                refuse(place, RowError(str(error)), defects, skip=skip)


def _number(fields: Mapping[str, str], name: str, *, missing: float | None = None) -> float:
    text = fields[name].strip()
    if not text and missing is not None:
        return missing
    try:
        value = float(text)
    except ValueError:
        raise RowError(f"{name} {shown(text)} is not a number") from None
    if not isfinite(value) or not 0 <= value <= _MOST:
        raise RowError(f"{name} {shown(text)} is not a number from 0 on")
    return value


def _node(_: str, fields: Mapping[str, str]) -> GpuNode:
    cpu, memory, gpus = (int(_number(fields, name)) for name in ("cpu_milli", "memory_mib", "gpu"))
    if gpus > MOST_DEVICES:
        raise RowError(f"gpu {gpus} is more than {MOST_DEVICES}")
    return GpuNode(fields["sn"].strip(), cpu, memory, gpus, fields["model"].strip())


def _pod(place: str, fields: Mapping[str, str]) -> Pod:
    cpu, memory, gpus = (int(_number(fields, name)) for name in ("cpu_milli", "memory_mib", "num_gpu"))
    return Pod(
        place=place, name=fields["name"].strip(), cpu=cpu, memory=memory, gpus=gpus,
        milli=int(_number(fields, "gpu_milli", missing=0)),
        models=tuple(each.strip() for each in fields["gpu_spec"].split("|") if each.strip()),
        qos=fields["qos"].strip(), phase=fields["pod_phase"].strip(), created=_number(fields, "creation_time"),
        deleted=_number(fields, "deletion_time", missing=-1), scheduled=_number(fields, "scheduled_time", missing=-1),
    )  # fmt: skip


@dataclass(slots=True)
class _Made:
    """Makes the workload of nodes and pods."""

    path: Path
    options: TraceOptions
    nodes: Sequence[GpuNode]
    rows: Sequence[Pod]
    defects: Defects

    def trace(self) -> Trace:
        """Return the trace."""
        pods = sorted(map(self._whole, self.rows), key=lambda pod: pod.created)
        self.defects.add(OUT_OF_ORDER, sum(b.created < a.created for a, b in pairwise(self.rows)))
        end = max(max(pod.created, pod.deleted, pod.scheduled) for pod in pods)
        part = self.options.shared_gpus
        part = _shared_part(pods, end) if part is None else part
        shared = shared_devices(self.nodes, part)
        machines = machines_of(self.nodes, shared)
        pods = list(self._fitting(pods, machines))
        kept = self._wanted(pods)
        lasting = np.array([self._lasting(pod, end) for pod in kept], dtype=np.int64)
        names = Names()
        arrivals, events = [], []
        begin = kept[0].created if kept else 0.0
        for at, pod in enumerate(kept):
            job = self._job(pod, int(lasting[at]), names)
            arrivals.append(Arrival(pod.created - begin, job, (lasting[at : at + 1],)))
            if pod.scheduled < 0 and pod.deleted >= pod.created:
                events.append(JobEvent(pod.deleted - begin, job.id, "stop"))
        events.sort(key=lambda event: event.at_seconds)
        facts = self._facts(pods, sum(shared.values()), part)
        about = (
            f"{self.path.name}: {len(self.nodes):,} nodes with {facts['gpus']:,} GPUs;"
            f" {facts['gpus_shared']:,} are shared and machines of their own\narriving: {len(arrivals):,} pods"
        )
        workload = Workload(machines, [], arrivals, about, dimensions=GPU_DIMENSIONS, events=events)
        guessed = (
            f"{facts['gpus_shared']:,} GPUs are shared, each with its part of the cpu and memory of its node",
            "pods never scheduled would have run until they were deleted",
        )
        return Trace(AlibabaReader.name, workload, self.defects.found(), facts, end - begin, guessed)

    def _whole(self, pod: Pod) -> Pod:
        """Return a pod with thousandths that agree with its number of GPUs."""
        if pod.gpus > 1 and 0 < pod.milli < DEVICE:
            self.defects.add(PART_OF_SEVERAL, 1, [pod.place])
        if pod.gpus == 1 and pod.milli == 0:
            self.defects.add(NO_PART, 1, [pod.place])
        return replace(pod, milli=pod.milli if pod.gpus == 1 and 0 < pod.milli < DEVICE else DEVICE)

    def _fitting(self, pods: Sequence[Pod], machines: Sequence[MachineSpec]) -> Iterator[Pod]:
        """Yield the pods that fit an empty machine of the cell."""
        kinds = {(m.capacity, m.attributes.get(MODEL, ""), SHARED in m.attributes) for m in machines}
        known: dict[tuple[Resources, tuple[str, ...], bool], bool] = {}
        for pod in pods:
            key = (pod.need, pod.models if pod.gpus else (), pod.fraction)
            if key not in known:
                need, models, fraction = key
                known[key] = any(
                    all(amount <= has for amount, has in zip(need, capacity, strict=True))
                    and (not models or model in models)
                    and (shared or not fraction)
                    for capacity, model, shared in kinds
                )
            if known[key]:
                yield pod
            else:
                self.defects.add(TOO_LARGE, 1, [pod.place])

    def _wanted(self, pods: Sequence[Pod]) -> list[Pod]:
        chosen = list(pods[: self.options.tasks])
        if self.options.seconds is not None and chosen:
            chosen = [pod for pod in chosen if pod.created - chosen[0].created <= self.options.seconds]
        return chosen

    def _lasting(self, pod: Pod, end: float) -> int:
        """Return how long a pod runs, in microseconds."""
        if pod.scheduled < 0:
            self.defects.add(NEVER_SCHEDULED, 1, [pod.place])
            return round(1e6 * (max(pod.deleted, pod.created) - pod.created))
        start, until = pod.scheduled, pod.deleted if pod.deleted >= 0 else end
        if start < pod.created:
            self.defects.add(EARLY, 1, [pod.place])
        if pod.phase == "Running" or pod.deleted < 0:
            self.defects.add(NO_END, 1, [pod.place])
        if until < start:
            self.defects.add(ENDS_FIRST, 1, [pod.place])
        elif until == start:
            self.defects.add(ZERO, 1, [pod.place])
        return round(1e6 * max(0.0, until - start))

    def _job(self, pod: Pod, lasting: int, names: Names) -> JobSpec:
        if pod.qos not in PRECEDENCE:
            self.defects.add(NO_QOS, 1, [pod.place])
        name, again = names.unique(pod.name)
        self.defects.add(TWICE, int(again), [pod.place] * again)
        texts = [f"{SHARED} == 'yes'"] if pod.fraction else []
        if pod.models and pod.gpus:
            texts.append(f"{MODEL} in [{', '.join(map(repr, pod.models))}]")
        group = TaskGroup(pod.need, 1, max(1, lasting // 1000), {"constraints": texts} if texts else {})
        kind = "service" if pod.qos in SERVICE else "batch"
        return JobSpec(name, f"alibaba/{name}", kind, (group,), precedence=PRECEDENCE.get(pod.qos, 0))

    def _facts(self, pods: Sequence[Pod], shared: int, part: float) -> dict[str, Any]:
        models = Counter[str]()
        for node in self.nodes:
            models[node.model or "none"] += node.gpus
        waits = [pod.scheduled - pod.created for pod in pods if pod.scheduled >= pod.created]
        return {
            "nodes": len(self.nodes),
            "gpus": sum(models.values()),
            "gpus_by_model": dict(sorted(models.items())),
            "gpus_shared": shared,
            "shared_part": part,
            "pods": len(self.rows),
            "pods_with_fraction": sum(pod.fraction for pod in pods),
            "pods_with_models": sum(bool(pod.models) for pod in pods),
            "phases": dict(sorted(Counter(pod.phase for pod in self.rows).items())),
            "recorded_wait": percentiles(np.array(waits, dtype=float)),
        }


def _shared_part(pods: Sequence[Pod], end: float) -> float:
    """Return the part of all GPU time that pods with a fraction of a GPU ask for."""
    fractions = whole = 0.0
    for pod in pods:
        if pod.gpus:
            seconds = (pod.deleted if pod.deleted >= 0 else end) - max(pod.scheduled, pod.created)
            time = max(1.0, seconds) * pod.need[2]
            fractions, whole = (fractions + time, whole) if pod.fraction else (fractions, whole + time)
    return fractions / (fractions + whole) if fractions else 0.0
