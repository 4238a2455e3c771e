"""``omega bench commit``: claims per second through the product's own path, beside the ceiling.

The ceiling is the better of two ways to write the very keys and bytes of those commits, the log
included, without reading or validating: plain pipelined commands, and an unchecked script. They are
measured in turn with the commits, round after round on the same state, by the same number of processes,
with the same number of transactions per round trip, one call in flight, and through the same client
library. ``packed`` tells what the server takes when clients only push bytes made ready beforehand and
read nothing: no client of a scheduler can reach it, it shows how much of the time is the server's.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from uuid import uuid4

from benchmarks.ceiling import UNCHECKED, Recorder, pack, without_log_number
from benchmarks.committer import Calls, ClientRound, Commits, Timing, answer_of, client_processes, serve
from benchmarks.computer import computer, middle, spread, wait_calm
from benchmarks.launch import Document, launch, progress
from benchmarks.store import Saved, Store, StoreSettings
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import StoreError
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.schedulers.presets import BATCH_JOBS

CAPACITY, NEED = (64_000, 262_144), (10, 32)
"""Tiny tasks on big machines: no machine fills within a round."""
KINDS = ("checked", "plain", "unchecked", "packed")
LEASE_MS = 24 * 3600 * 1000
TRIAL_CALLS = 40
FEWEST_CALLS = 5
SUBMITTED_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """What to measure. `seconds` is the length of a round, of which each case has `rounds` of each kind.

    `per_call` is how many transactions go in one round trip, as many as the batch preset sends.
    """

    machines: int = 10_000
    clients: Sequence[int] = (1, 2, 4)
    sizes: Sequence[int] = (1, 10, 100)
    per_call: int = BATCH_JOBS
    seconds: float = 0.5
    rounds: int = 5
    calm_seconds: float = 2.0


@dataclass(slots=True)
class Round:
    """What all clients together did in one round."""

    claims_per_second: float
    server_cpu: float
    client_cpu: float


@dataclass(slots=True)
class CommitCase:
    """One number of clients and one size of transaction."""

    plans: list[ClientRound]
    saved: Saved
    rounds: dict[str, list[Round]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    bytes_written: int = 0

    @property
    def claims(self) -> int:
        """Claims of a round."""
        return sum(plan.calls * plan.per_call * plan.size for plan in self.plans)


def measure(settings: Settings) -> Document:
    """Measure every case and return the document that the command prints with --json."""
    about = computer()
    with settings.measured_store() as store:
        cell = store.make_cell()
        cell.executors.register("bench", "bench", 600_000, now_ms())
        cell.machines.join("bench", [MachineSpec(f"m{i}", CAPACITY) for i in range(settings.machines)], now_ms())
        empty = Saved.save(store, "empty")
        runs = []
        for size in settings.sizes:
            for clients in settings.clients:
                runs.append(_run(store, settings, empty, clients, size))
                _tell(runs[-1])
        return {
            "cell": {"machines": settings.machines},
            "runs": runs,
            "store": store.describe(),
            "computer": about,
            "settings": {"seconds": settings.seconds, "rounds": settings.rounds},
        }


def _run(store: Store, settings: Settings, empty: Saved, clients: int, size: int) -> dict[str, object]:
    empty.restore()
    calls = _calibrate(store, settings, clients, size)
    empty.restore()
    case = _prepare(store, settings, clients, size, calls)
    with _processes(store, case.plans) as pipes:
        _load(store, case, pipes)
        for _ in range(settings.rounds):
            wait_calm(settings.calm_seconds)
            for kind in KINDS:
                case.saved.restore()
                case.rounds[kind].append(_round(store, case, pipes, kind))
    return _figures(case)


def _prepare(store: Store, settings: Settings, clients: int, size: int, calls: int) -> CommitCase:
    """Members registered and jobs submitted, and all that kept aside as the state every round begins with."""
    cell = store.open_cell()
    plans = []
    for client in range(clients):
        membership = cell.schedulers.register(f"bench/{client}", uuid4().hex, LEASE_MS, now_ms())
        sizes = {"size": size, "per_call": settings.per_call, "calls": calls, "machines": settings.machines}
        plans.append(ClientRound(client=client, incarnation=membership.incarnation, **sizes))
    for plan in plans:
        count = plan.calls * plan.per_call
        for start in range(0, count, SUBMITTED_AT_ONCE):
            numbers = range(start, min(start + SUBMITTED_AT_ONCE, count))
            cell.jobs.submit([job_of(plan, number) for number in numbers], now_ms(), "bench")
    cell.close()
    return CommitCase(plans, Saved.save(store, "begin"))


def job_of(plan: ClientRound, number: int) -> JobSpec:
    """Return a job of a round."""
    name = plan.job(number)
    return JobSpec(name, f"job-{name}", "bench", (TaskGroup(NEED, plan.size, 60_000),))


def _calibrate(store: Store, settings: Settings, clients: int, size: int) -> int:
    """How many calls per client make a round of about the wished length."""
    trial = _prepare(store, settings, clients, size, TRIAL_CALLS)
    with _processes(store, trial.plans) as pipes:
        rates = []
        for _ in range(2):
            trial.saved.restore()
            rates.append(_round(store, trial, pipes, "checked").claims_per_second)
    per_client = rates[-1] / (size * settings.per_call * clients)
    return max(FEWEST_CALLS, round(per_client * settings.seconds))


def _load(store: Store, case: CommitCase, pipes: list[Connection]) -> None:
    """Commit a round once under observation, and give its writes to the clients, call by call."""
    case.saved.restore()
    cells = [store.open_cell() for _ in case.plans]
    recorder = Recorder(store.client)
    rounds = [Commits(cell, plan, plan.transactions()) for cell, plan in zip(cells, case.plans, strict=True)]
    writes: list[Calls] = [[] for _ in rounds]
    for _ in range(case.plans[0].calls):
        # Alternating, as the clients: a machine's record grows with every claim of any client.
        for commits, calls in zip(rounds, writes, strict=True):
            calls.append([without_log_number(command) for command in recorder.record(commits.step)])
            case.bytes_written += len(pack(calls[-1]))
    recorder.close()
    for cell in cells:
        cell.close()
    for pipe, calls in zip(pipes, writes, strict=True):
        pipe.send("load")
        pipe.send(calls)
        answer_of(pipe)


def _processes(store: Store, plans: list[ClientRound]) -> AbstractContextManager[list[Connection]]:
    """Return pipes to one process per plan; all are gone afterwards."""
    sha = store.load_script(UNCHECKED)
    return client_processes(serve, [(store.url, store.cell, plan, sha) for plan in plans])


def _round(store: Store, case: CommitCase, pipes: list[Connection], kind: str) -> Round:
    """Let all clients do a round of a kind at once."""
    for pipe in pipes:
        pipe.send(kind)
    for pipe in pipes:
        answer_of(pipe)
    server = store.cpu_seconds()
    for pipe in pipes:
        pipe.send("go")
    timings: list[Timing] = [answer_of(pipe) for pipe in pipes]
    server = store.cpu_seconds() - server
    lasted = max(t.ended for t in timings) - min(t.began for t in timings)
    placed = sum(t.placed for t in timings)
    if kind == "checked" and placed != case.claims:
        raise StoreError(f"{case.claims - placed} of {case.claims} claims were refused")
    return Round(case.claims / lasted, server / lasted, sum(t.cpu for t in timings) / lasted)


def _figures(case: CommitCase) -> dict[str, object]:
    rates = {kind: [each.claims_per_second for each in rounds] for kind, rounds in case.rounds.items()}
    claims, plain, unchecked, packed = (middle(rates[kind]) for kind in KINDS)
    kind = "plain" if plain >= unchecked else "unchecked"
    ceiling = max(plain, unchecked)
    plan = case.plans[0]
    ratios = [mine / other for mine, other in zip(rates["checked"], rates[kind], strict=True)]
    return {
        "clients": len(case.plans),
        "size": plan.size,
        "claims_per_second": round(claims),
        "transactions_per_second": round(claims / plan.size),
        "ceiling_claims_per_second": round(ceiling),
        "ratio": round(claims / ceiling, 3),
        "ceiling_kind": kind,
        "plain": round(plain),
        "unchecked": round(unchecked),
        "packed": round(packed),
        "ratio_to_packed": round(claims / packed, 3),
        "spread": {
            "claims_per_second": [round(rate) for rate in spread(rates["checked"])],
            "ceiling_claims_per_second": [round(rate) for rate in spread(rates[kind])],
            "ratio": spread(ratios, 3),
        },
        "transactions_per_call": plan.per_call,
        "claims_per_round": case.claims,
        "bytes_per_claim": round(case.bytes_written / case.claims, 1),
        "server_cpu": _each(case, lambda each: each.server_cpu),
        "client_cpu": _each(case, lambda each: each.client_cpu),
        # CPU time is what others on the computer take least from: the figure to compare two versions by.
        "server_us_per_claim": _each(case, lambda each: each.server_cpu / each.claims_per_second * 1e6),
        "client_us_per_claim": _each(case, lambda each: each.client_cpu / each.claims_per_second * 1e6),
    }


def _each(case: CommitCase, figure: Callable[[Round], float]) -> dict[str, float]:
    """The median of a figure, by kind of round."""
    return {kind: round(middle(list(map(figure, rounds))), 2) for kind, rounds in case.rounds.items()}


def _tell(run: dict[str, object]) -> None:
    progress(
        f"commit: {run['clients']} clients, {run['size']} claims a transaction: {run['claims_per_second']:,} claims/s, "
        f"ceiling {run['ceiling_claims_per_second']:,} ({run['ceiling_kind']}), ratio {run['ratio']}"
    )


if __name__ == "__main__":
    launch(Settings, measure)
