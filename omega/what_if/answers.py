"""Answers to what-if questions: runs of a recording under its own and under other settings, and the checks behind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.model import Job, JobSpec
from omega.recording.history import History, history_of
from omega.recording.judge import Judgement, judge
from omega.recording.recording import Recording, load
from omega.schedulers.scheduler import Scheduler
from omega.simulation.drive import SimulatedScheduler
from omega.simulation.run import Simulation
from omega.simulation.settings import Settings
from omega.traces.recording import trace_of
from omega.traces.trace import Trace
from omega.what_if.cell import other_cell
from omega.what_if.metrics import Measured, happened, replayed, tolerance
from omega.what_if.schedulers import Change, Setup, built, changed, recorded
from omega.workload.workload import Workload

DAY = 86_400
CANNOT_TELL = "cannot tell"
NUMBERS = {"batch", "service", "mapreduce"}
"""Changes of the number of schedulers."""
Told = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of the recording: its change, its metrics (medians over the seeds), and the first seed's measurements."""

    change: Change
    metrics: Mapping[str, float]
    measured: Measured
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The runs of one recording, and the two checks behind them."""

    recording: Recording
    trace: Trace
    setups: Mapping[str, Setup]
    judgement: Judgement
    happened: Measured
    base: Run
    runs: Sequence[Run] = ()
    seeds: int = 1

    def agrees(self, metric: str) -> bool:
        """Check 2: whether the run under the recorded settings agrees with what happened."""
        real = self.happened.metrics[metric]
        return abs(self.base.metrics[metric] - real) <= tolerance(metric).of(real)

    def effect(self, run: Run, metric: str) -> float | None:
        """Return the effect of a change on a metric; None when it cannot be told.

        Another number of schedulers acts by way of conflicts: nothing of it is told unless those agree too.
        """
        if not self.agrees(metric) or (NUMBERS & run.change.words.keys() and not self.agrees("conflict_fraction")):
            return None
        before = self.base.metrics[metric]
        effect = run.metrics[metric] - before
        return effect if abs(effect) > tolerance(metric).of(before) else None

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        names = list(self.happened.metrics)
        return {
            "recording": str(self.recording.path), "cell": self.recording.cell, "seconds": self.trace.seconds,
            "notes": [*self.recording.notes(), *self.base.notes],
            "defects": {each.rule: each.count for each in self.trace.defects},
            "judgement": self.judgement.as_json(), "seeds": self.seeds,
            "schedulers": {
                kind: {"number": each.number, "t_job": each.t_job, "settings": dict(each.settings)}
                for kind, each in self.setups.items()
            },
            "happened": dict(self.happened.metrics), "as_recorded": dict(self.base.metrics),
            "agrees": {name: self.agrees(name) for name in names},
            "tolerance": {name: tolerance(name).of(self.happened.metrics[name]) for name in names},
            "runs": [
                {
                    "change": dict(run.change.words), "metrics": dict(run.metrics), "notes": list(run.notes),
                    "effect": {name: self.effect(run, name) for name in names},
                }
                for run in self.runs
            ],
        }  # fmt: skip


class _Routed(Simulation):
    """A simulation in which each job goes to the scheduler that took it, as far as `takers` has it."""

    def __init__(
        self, takers: Mapping[str, str], workload: Workload, settings: Settings, own: Sequence[Scheduler]
    ) -> None:
        self._takers = takers
        super().__init__(workload, settings, own=own, records=True)

    def _routes(self) -> Callable[[JobSpec | Job], SimulatedScheduler]:
        usual = super()._routes()
        named = {each.name: each for each in self.simulated_schedulers}

        def route(job: JobSpec | Job) -> SimulatedScheduler:
            return named.get(self._takers.get(job.id, "")) or usual(job)

        return route


@dataclass
class Questions:
    """A recording that questions are asked of. Raises BadInput for a file that is none."""

    path: Path
    seeds: int = 3
    told: Told = str
    """Called with what is being done."""
    recording: Recording = field(init=False)
    history: History = field(init=False)
    trace: Trace = field(init=False)

    def __post_init__(self) -> None:
        self.told("reading the recording")
        self.recording = load(self.path)
        try:
            self.history = history_of(self.recording.longest)
        except (ValueError, IndexError, KeyError) as error:
            raise BadInput(f"recording {self.path}: its log cannot be read: {error}; record again") from None
        self.trace = trace_of(self.recording, self.history)
        if self.trace.seconds <= 0 or not self.trace.workload.machines:
            raise BadInput(f"recording {self.path}: has nothing but a picture; record for longer")

    def ask(self, changes: Sequence[Change]) -> Answers:
        """Judge the recording, run it as recorded and with each change. Raises Refused when check 1 fails."""
        self.told("judging its transactions again")
        judgement = judge(self.recording.longest, self.recording.dimensions)
        if not judgement.ok:
            what = f"{judgement.wrong} differences between recording and twin, the first: {judgement.differences[0]}"
            raise Refused(f"recording {self.path}: {what}; no question can be answered")
        setups = recorded(self.history)
        base = self._run(setups, Change())
        runs = [self._run(changed(setups, change), change) for change in changes]
        return Answers(
            recording=self.recording, trace=self.trace, setups=setups, judgement=judgement,
            happened=happened(self.history, self.trace.workload), base=base, runs=runs, seeds=self.seeds,
        )  # fmt: skip

    def _run(self, setups: Mapping[str, Setup], change: Change) -> Run:
        workload = other_cell(self.trace.workload, change)
        same = {kind: each.number for kind, each in setups.items()} == {
            kind: each.number for kind, each in recorded(self.history).items()
        }
        measured, notes = list[Measured](), list[str]()
        for seed in range(self.seeds):
            self.told(f"{change.label}, seed {seed}")
            schedulers, notes = built(setups)
            settings = Settings(
                days=self.trace.seconds / DAY, seed=seed,
                batch_schedulers=max(1, setups["batch"].number if "batch" in setups else 1),
                service_schedulers=max(1, setups["service"].number if "service" in setups else 1),
            )  # fmt: skip
            takers = self.history.takers if same else {}
            result = _Routed(takers, workload, settings, schedulers).run()
            measured.append(replayed(workload, result, self.trace.seconds))
        metrics = {name: median(each.metrics[name] for each in measured) for name in measured[0].metrics}
        return Run(change=change, metrics=metrics, measured=measured[0], notes=notes)


def each_combination(varied: Mapping[str, Sequence[str]]) -> list[Change]:
    """Return a change for each combination of values, the last name varying fastest."""
    changes: list[dict[str, str]] = [{}]
    for name, words in varied.items():
        changes = [{**before, name: word} for before in changes for word in words]
    return [Change(words=each) for each in changes if each]
