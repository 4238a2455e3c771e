"""Whether a changed cell does what a what-if answer says: ten fixed pairs of cells (``python -m benchmarks.what_if``).

A pair is a cell and one change of it. The part ``answers`` records each cell live and asks the recording about the
change; the document is kept as cases/what_if.json before anything is measured. The part ``live`` then runs both cells
of each pair three times. A true effect on a metric is one where all runs of one side lie outside the range of the
other's. No answer may have the wrong sign, and half of the true effects must be told.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.agreement import case
from benchmarks.computer import computer
from benchmarks.launch import Document, launch, progress
from benchmarks.residents import BENCH_EXECUTOR, join
from benchmarks.store import Store, StoreSettings
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import BadInput, StoreError
from omega.cellstate.model import JobSpec, Limits, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Transaction
from omega.live.processes.supervisor import ProcessSupervisor
from omega.recording.file import Writer
from omega.recording.history import history_of
from omega.recording.recorder import Recorder
from omega.recording.recording import load
from omega.schedulers import registry
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from omega.traces.recording import trace_of
from omega.what_if.answers import Questions
from omega.what_if.metrics import happened
from omega.what_if.schedulers import Change

CORES, MEMORY = 4_000, 16_384
"""Capacity of each machine (millicores, MiB)."""
NEEDS = ((1_000, 0.55), (2_000, 0.3), (3_000, 0.15))
"""Millicores of a task, and how often."""
MOST_TASKS = 6
"""A job has 1 to so many tasks."""
DURATIONS = (0.3, 1.7)
"""Seconds of a task."""
LEASE_MS = 3_000
POLL_SECONDS = 0.02
DECISION = "BENCH_DECISION_SECONDS"
PLACEMENT = "BENCH_PLACEMENT"
POOLS = ("short", "long")
"""Pools of jobs with few and with many tasks."""


class Deliberate(Scheduler):
    """A scheduler whose decisions take at least BENCH_DECISION_SECONDS: what a change does must not be noise."""

    def decide(self, works: Sequence[Work], snapshot: Snapshot, now: float) -> list[Transaction]:
        """Wait, then decide."""
        time.sleep(float(os.environ[DECISION]) * len(works))
        return Scheduler.decide(self, works, snapshot, now)


def batch(seed: str) -> Scheduler:
    """Return the batch scheduler of a cell, as its environment says."""
    return _deliberate("batch", seed, registry.offer("placement", os.environ[PLACEMENT]).load()())


def service(seed: str) -> Scheduler:
    """Return the service scheduler of a cell, as its environment says."""
    return _deliberate("service", seed, registry.scheduler("service").placement)


def _deliberate(kind: str, seed: str, placement: Any) -> Scheduler:
    return Deliberate(kind, placement=placement, jobs_per_call=1, follows_pools=True, rng=Random(seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A cell: its schedulers and their seconds for a decision, machines, the offered use, and what else it has.

    Jobs are those of a cell of ten machines, whatever the number of its own.
    """

    use: float
    batch: int = 2
    service: int = 0
    decision: float = 0.05
    placement: str = "random-fit"
    detection: str = "fine"
    commit: str = "incremental"
    machines: int = 10
    limit: int | None = None
    """Millicores that batch jobs may use together."""
    weights: tuple[float, float] | None = None
    """Weights of the pools `POOLS`."""

    @property
    def pools(self) -> Pools:
        """Its pools, none without weights."""
        weights = zip(POOLS, self.weights or (), strict=False)
        return Pools(tuple(Pool(name, weight=weight) for name, weight in weights))


@dataclass(frozen=True, slots=True)
class Pair:
    """A cell, the fields that the changed one has instead, and the words of the question."""

    before: Side
    fields: Mapping[str, Any]
    words: Mapping[str, str]

    @property
    def after(self) -> Side:
        """The changed cell."""
        return replace(self.before, **self.fields)


FULL, HALF = Side(use=0.94), Side(use=0.7)
SLOW = 0.2
"""Seconds for a decision where decisions are what jobs wait for."""
PAIRS: Mapping[str, Pair] = {
    "schedulers 2 to 4": Pair(replace(FULL, decision=SLOW), {"batch": 4}, {"batch": "4"}),
    "schedulers 4 to 1": Pair(replace(HALF, batch=4, decision=SLOW), {"batch": 1}, {"batch": "1"}),
    "best fit": Pair(FULL, {"placement": "best-fit"}, {"placement": "best-fit"}),
    "coarse": Pair(FULL, {"detection": "coarse"}, {"detection": "coarse"}),
    "gangs": Pair(FULL, {"commit": "gang"}, {"commit": "gang"}),
    "decisions ten times as long": Pair(HALF, {"decision": 0.5}, {"t-job": "0.5"}),
    "weights swapped": Pair(replace(FULL, weights=(4.0, 1.0)), {"weights": (1.0, 4.0)}, {"pools": "after"}),
    "limit halved": Pair(replace(HALF, limit=32_000), {"limit": 16_000}, {"limits": "50%"}),
    "machines less 20 %": Pair(HALF, {"machines": 8}, {"machines": "-20%"}),
    "a service scheduler more": Pair(replace(HALF, service=1, decision=0.4), {"service": 2}, {"service": "2"}),
}
"""Half of them at 70 % use, half at 94 %."""
SERVICE_PART = 0.4
"""Of the jobs, in a cell with service schedulers."""
AT_ONCE = 4
"""Batch schedulers of a cell with service schedulers: so many that batch jobs do not wait for decisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """The part, the pairs by name (empty: all), seconds of a run, runs of each side, and the file of answers.

    The part ``live`` takes the seconds of the answers. ``both`` asks first and measures then, without a file.
    """

    part: str = "live"
    pairs: Sequence[str] = ()
    seconds: float = 60.0
    times: int = 3
    answers: str = ""

    @property
    def chosen(self) -> dict[str, Pair]:
        """The chosen pairs. Raises BadInput for an unknown name."""
        if unknown := set(self.pairs) - set(PAIRS):
            raise BadInput(f"pair {', '.join(sorted(unknown))}: there is {', '.join(PAIRS)}")
        return {name: pair for name, pair in PAIRS.items() if not self.pairs or name in self.pairs}


def measure(settings: Settings) -> Document:
    """Run a part. Raises BadInput for an unknown one."""
    about, pairs = computer(), settings.chosen
    if settings.part not in ("answers", "live", "both"):
        raise BadInput(f"part {settings.part}: there is answers, live, both")
    told = json.loads((Path(settings.answers) if settings.answers else case("what_if.json")).read_text("utf-8")) if (
        settings.part == "live"
    ) else {}  # fmt: skip
    with settings.measured_store() as store:
        seconds = float(told.get("seconds", settings.seconds))
        answers: Mapping[str, Any] = told.get("answers") or dict(_answers(store, pairs, seconds))
        document: Document = {"seconds": seconds, "computer": about, "store": store.describe()}
        if settings.part == "answers":
            return document | {"answers": answers}
        rows = list(_live(store, pairs, answers, seconds, settings.times))
        return document | judged(rows) | {"pairs": rows, "times": settings.times}


def _answers(store: Store, pairs: Mapping[str, Pair], seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Record each cell once, and ask its recording about the changes."""
    recordings: dict[Side, Path] = {}
    for name, pair in pairs.items():
        if pair.before not in recordings:
            recordings[pair.before] = path = store.directory / f"asked-{len(recordings)}.rec.gz"
            _record(store, pair.before, seconds, path)
        words = dict(pair.words)
        if "pools" in words:
            file = store.directory / "pools.json"
            pools = [{"name": each.name, "weight": each.weight} for each in pair.after.pools.pools]
            file.write_text(json.dumps({"pools": pools}))
            words["pools"] = str(file)
        answers = Questions(recordings[pair.before]).ask([Change(words=words)])
        run = answers.runs[0]
        effects = {metric: answers.effect(run, metric) for metric in run.metrics}
        progress(f"{name}: told {_said(effects)}")
        yield name, {
            "effects": effects, "agrees": {metric: answers.agrees(metric) for metric in run.metrics},
            "as_recorded": dict(answers.base.metrics), "changed": dict(run.metrics),
        }  # fmt: skip


def _said(effects: Mapping[str, float | None]) -> str:
    return ", ".join(f"{metric} {effect:+.3f}" for metric, effect in effects.items() if effect is not None) or "nothing"


def _live(
    store: Store, pairs: Mapping[str, Pair], answers: Mapping[str, Any], seconds: float, times: int
) -> Iterator[dict[str, Any]]:
    """Run both sides of each pair, and compare."""
    runs: dict[Side, list[Mapping[str, float]]] = {}
    for name, pair in pairs.items():
        for side in (pair.before, pair.after):
            if side not in runs:
                path = store.directory / "live.rec.gz"
                runs[side] = [_record(store, side, seconds, path) for _ in range(times)]
        before, after = runs[pair.before], runs[pair.after]
        effects = {
            metric: {
                "told": told, "before": [each[metric] for each in before], "after": [each[metric] for each in after],
                "true": sign([each[metric] for each in before], [each[metric] for each in after]),
            }
            for metric, told in answers[name]["effects"].items()
        }  # fmt: skip
        row = {"pair": name, "use": pair.before.use, "effects": effects}
        progress(f"{name}: {judged([row])}")
        yield row


def sign(before: Sequence[float], after: Sequence[float]) -> int:
    """Return the sign of a true effect; 0 where the ranges of both sides overlap."""
    return (min(after) > max(before)) - (max(after) < min(before))


def judged(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count true effects, those that are told, answers with the wrong sign, and answers without a true effect."""
    effects = [each for row in rows for each in row["effects"].values()]
    told = [(each["true"], (each["told"] > 0) - (each["told"] < 0)) for each in effects if each["told"] is not None]
    found = {
        "true": sum(each["true"] != 0 for each in effects),
        "told": sum(true * said > 0 for true, said in told),
        "wrong": sum(true * said < 0 for true, said in told),
        "unseen": sum(true == 0 for true, _ in told),
    }
    return found | {"met": found["wrong"] == 0 and 2 * found["told"] >= found["true"]}


def _record(store: Store, side: Side, seconds: float, path: Path) -> Mapping[str, float]:
    """Run a cell for some time, record it, and return the metrics of what happened."""
    store = replace(store, cell=f"{store.cell}-{time.monotonic_ns()}")
    cell = store.make_cell()
    join(cell, side.machines, (CORES, MEMORY))
    if side.limit is not None:
        cell.pools.set_limits("batch", Limits((side.limit, None)), now_ms(), "bench")
    if side.weights is not None:
        cell.pools.set(side.pools, 0, now_ms(), "bench")
    settings = {
        DECISION: str(side.decision), PLACEMENT: side.placement, "OMEGA_DETECTION": side.detection,
        "OMEGA_MODE": side.commit,
    }  # fmt: skip
    number = {"batch": AT_ONCE if side.service else side.batch, "service": side.service}
    choices = {kind: {"OMEGA_SCHEDULER": f"{__spec__.name}:{kind}"} for kind in number}
    logs = store.directory / f"logs-{store.cell}"
    try:
        with (
            path.open("wb") as file,
            ProcessSupervisor(
                store.url, store.cell, logs, lease_ms=LEASE_MS, settings=settings, choices=choices, bound=True
            ) as group,
        ):
            group.start(f"simulated/{BENCH_EXECUTOR}")
            for member in [f"{kind}/{i}" for kind, count in number.items() for i in range(count)]:
                group.start(member)
            group.wait_ready(cell)
            recorder = Recorder(cell, Writer(file))
            recorder.begin()
            begin = time.monotonic()
            for at, job in [*_jobs(side, seconds), (seconds, None)]:
                while (left := begin + at - time.monotonic()) > 0:
                    time.sleep(min(left, POLL_SECONDS))
                    recorder.step()
                if job is not None:
                    cell.jobs.submit([job], now_ms(), "bench")
            recorder.end("time")
            for name, code in group.dead().items():
                raise StoreError(f"{name}: {group.end_of(name, code)} (while measured)")
    finally:
        cell.close()
        store.clear()
    recording = load(path)
    history = history_of(recording.longest)
    return happened(history, trace_of(recording, history).workload).metrics


def _jobs(side: Side, seconds: float) -> Iterator[tuple[float, JobSpec]]:
    """Yield jobs that ask for the offered use of ten machines, with their times: the same for each run."""
    draw, jobs, asked = Random("what-if"), list[JobSpec](), 0.0
    while asked < side.use * 10 * CORES * seconds:
        name, tasks = f"j{len(jobs)}", draw.randint(1, MOST_TASKS)
        (cpu,) = draw.choices([need for need, _ in NEEDS], [often for _, often in NEEDS])
        lasts = draw.uniform(*DURATIONS)
        kind = "service" if draw.random() < SERVICE_PART and side.service else "batch"
        spec = {"pool": POOLS[tasks > MOST_TASKS // 2]} if side.weights else {}
        jobs.append(JobSpec(name, name, kind, (TaskGroup((cpu, 512), tasks, round(1000 * lasts)),), spec=spec))
        asked += cpu * tasks * lasts
    yield from zip(sorted(draw.uniform(0, seconds) for _ in jobs), jobs, strict=True)


if __name__ == "__main__":
    launch(Settings, measure)
