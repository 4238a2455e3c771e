"""Shared by tests of whole cells: bounded waiting, servers for faults, mixed work, and a reader of the log."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

from omega.cellstate.errors import StoreError
from omega.cellstate.events import Fact
from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup, bucket_of
from omega.cellstate.redis import RedisCell
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import Answer, connect, ping
from omega.cellstate.verify import verify
from omega.embedded import server as embedded
from omega.live.processes.supervisor import TIME, ProcessSupervisor
from omega.live.simulated.executor import SimulatedExecutor
from omega.schedulers.sharing import owned
from tests.conftest import absent, end_with_parent, find_server, socket_directory, wait_for
from tests.integration.ledger import Ledger, lives_of

TIMEOUT_SECONDS = 60.0
"""Maximum time of any wait of a test; the awaited events take a few seconds on an idle machine."""
DEFAULT_EXECUTOR = "yard"
LEASE_MS = 1_000


def until(true: Callable[[], object], what: str, patience: float = TIMEOUT_SECONDS) -> None:
    """Return once `true()` is; a store that is away counts as not yet. Fails with `what` after `patience` seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with suppress(StoreError):
            if true():
                return
        time.sleep(0.02)
    raise AssertionError(f"not within {patience:.0f} s: {what}")


# Stores to hurt


@dataclass(slots=True)
class Server:
    """A server of a test's own, nothing on disk, with further options of its configuration."""

    directory: Path
    options: Sequence[str] = ()
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"unix://{self.directory / 'store.sock'}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        program = find_server() or absent("no server program for this platform")
        command = [program, "--port", "0", "--unixsocket", str(self.directory / "store.sock"), "--save", ""]
        command += ["--dir", str(self.directory), *self.options]
        log = self.directory / "log"
        with log.open("ab") as output:
            # Python ignores SIGXFSZ; left so, a file that may not grow is an error to the server and not its end.
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, restore_signals=False,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - no thread holds a lock that it takes
            )  # fmt: skip
        wait_for(self.process, self.directory / "store.sock", log)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@contextmanager
def own_server(*options: str) -> Iterator[Server]:
    """A server with such options; ended and forgotten afterwards."""
    server = Server(socket_directory(), options)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        rmtree(server.directory, ignore_errors=True)


@dataclass(slots=True)
class Embedded:
    """An embedded store of a test's own: a real server with append-only files."""

    state: Path
    pid: int = 0
    url: str = ""

    def start(self) -> None:
        """Start it, or wait until the one that was killed is back on its files."""
        store = embedded.ensure(self.state)
        self.pid, self.url = store.pid, store.url

    def kill(self) -> None:
        """End it at once, as a crash would; returns when it is gone."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            until(lambda: ping(self.url) is Answer.ABSENT, "the killed store is gone")
            self.pid = 0

    def halt(self) -> None:
        """Let it stand still (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def write(self) -> None:
        """Return when everything acknowledged so far is in the log of writes, which a crash leaves behind."""
        with connect(self.url) as client:
            until(lambda: not client.info("persistence")["aof_buffer_length"], "the store writes its log")

    @property
    def log_of_writes(self) -> Path:
        """The file that holds every write since the store was new."""
        found = sorted((self.state / "store" / "appendonlydir").glob("*.incr.aof"))
        assert len(found) == 1
        return found[0]


@contextmanager
def embedded_store() -> Iterator[Embedded]:
    """A store on append-only files, ended and forgotten afterwards."""
    top = socket_directory()
    store = Embedded(top / "state")
    try:
        store.start()
        yield store
    finally:
        store.kill()
        rmtree(top, ignore_errors=True)


# A cell and its members


@contextmanager
def made_cell(
    url: str, name: str, machines: int = 0, *, resources: tuple[str, ...] = ("cpu", "memory"), **settings: Any
) -> Iterator[RedisCell]:
    """A new cell of so many equal machines (8 cpu, 32 GiB), deleted afterwards if its store is still there."""
    with connect(url) as client:
        cell = RedisCell.create(client, name, Dimensions(resources), url=url, **({"keep_jobs": 30_000} | settings))
        try:
            if machines:
                capacity = cell.dimensions.parse_capacity({"cpu": 8, "memory": "32Gi"})
                join(cell, [MachineSpec(f"m{number}", capacity) for number in range(machines)])
            yield cell
        finally:
            with suppress(StoreError):
                cell.delete()
            cell.close()


def serve(cell: RedisCell) -> None:
    """Let the machines of a cell be up though no process simulates them: what is placed on them stays."""
    cell.executors.register(DEFAULT_EXECUTOR, "stage", 24 * 3600 * 1000, 0)


def join(cell: RedisCell, machines: Sequence[MachineSpec]) -> None:
    """Offer machines that the executor of these tests plays."""
    SimulatedExecutor(cell, DEFAULT_EXECUTOR, time.time).join(machines)


@contextmanager
def started_processes(
    cell: RedisCell, url: str, logs: Path, *members: str, lease_ms: int = LEASE_MS, speed: float = 1.0
) -> Iterator[ProcessSupervisor]:
    """Members at work on a cell; all ended afterwards, also those that were halted."""
    with ProcessSupervisor(url, cell.name, logs, lease_ms=lease_ms, speed=speed, bound=True) as group:
        try:
            for member in members:
                group.start(member)
            group.wait_ready(cell)
            yield group
        except BaseException as error:
            for member, code in group.dead().items():
                error.add_note(f"{member} ended with code {code}: " + "\n".join(words_of(group, member)))
            raise
        finally:
            for process in group.members.values():
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGCONT)


def words_of(group: ProcessSupervisor, member: str) -> list[str]:
    """What a member said on its error stream, by line, without the times; that its lease lapsed is chance."""
    lines = (group.logs / f"{member.replace('/', '-')}.log").read_text().splitlines()
    return [TIME.sub("", line) for line in lines if "warning: fenced" not in line]


def waited_for_store(member: str, error: str) -> list[str]:
    """What a member says of a store that does not serve for a while, up to how long that was."""
    return [f"warning: store away member={member} error={json.dumps(error)}", f"warning: store back member={member}"]


def ended(group: ProcessSupervisor, member: str) -> int:
    """Wait until a member ended without being stopped; returns its exit code."""
    until(lambda: group.members[member].poll() is not None, f"{member} ends")
    return group.members[member].returncode


def halt(group: ProcessSupervisor, member: str) -> None:
    """Stop a member in its tracks (SIGSTOP), with the process that watches it, and return when both stand."""
    pid = group.members[member].pid
    os.killpg(pid, signal.SIGSTOP)
    until(lambda: set(states_of_group(pid)) <= {"T", "Z"}, "all of its processes stand")


def states_of_group(group: int) -> Iterator[str]:
    """Yield the states of the processes of a group, as proc(5) writes them."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of, *_ = stat.read_text().rpartition(")")[2].split()
            if int(of) == group:
                yield state


def resume(group: ProcessSupervisor, member: str) -> None:
    """Let a halted member go on (SIGCONT)."""
    os.killpg(group.members[member].pid, signal.SIGCONT)


# Work


def simple_job(
    name: str, count: int = 1, *, cpu: int = 100, memory: int = 64, kind: str = "batch", ms: int = 0
) -> JobSpec:
    """A job of `count` equal tasks that run for `ms` milliseconds."""
    return JobSpec(name, name, kind, (TaskGroup((cpu, memory), count, ms),))


def mixed_jobs(rng: Random, tasks: int, name: str, *, longest_ms: int = 400) -> list[JobSpec]:
    """Jobs with `tasks` tasks together: both kinds, gangs and strict gangs, one or two groups, some precedence."""
    jobs: list[JobSpec] = []
    left = tasks
    while left:
        service = rng.random() < 0.1
        groups = []
        for _ in range(1 if rng.random() < 0.8 else 2):
            count = min(left, rng.randint(1, 8 if service else 40))
            if count:
                need = (rng.choice((50, 100, 250)), rng.choice((64, 256, 512)))
                groups.append(TaskGroup(need, count, rng.randint(0, longest_ms)))
                left -= count
        gang = rng.choices((Gang.NO, Gang.YES, Gang.STRICT), (80, 15, 5))[0]
        each = f"{name}-{len(jobs)}"
        kind = "service" if service else "batch"
        jobs.append(JobSpec(each, each, kind, tuple(groups), rng.choice((0, 0, 100, 200)), gang))
    return jobs


def submit(cell: RedisCell, jobs: Sequence[JobSpec]) -> None:
    """Submit jobs in one call; every one must be new."""
    answers = cell.jobs.submit(jobs, int(time.time() * 1000), "ada")
    assert {answer.status for answer in answers} <= {"new"}


def submit_again(cell: RedisCell, jobs: Sequence[JobSpec]) -> None:
    """Submit jobs, also while the store fails; existing ones stay unchanged."""

    def submitted() -> bool:
        answers = cell.jobs.submit(jobs, int(time.time() * 1000), "ada")
        assert {answer.status for answer in answers} <= {"new", "same"}
        return True

    until(submitted, "the store takes the jobs")


def await_sharing(cell: RedisCell, *members: str) -> list[JobSpec]:
    """Return once live schedulers of a kind share its jobs as they should: each places those that are its own.

    Returns the jobs that were submitted to see it.
    """
    probes: list[JobSpec] = []
    kind = members[0].partition("/")[0]
    owners = {member: owned(member, members) for member in members}

    def share() -> bool:
        wave = [
            simple_job(f"probe-{kind}-{cell.counters().get('jobs', 0)}-{number}", kind=kind) for number in range(16)
        ]
        since = cell.counters()["version"]
        submit(cell, wave)
        probes.extend(wave)
        until(lambda: not cell.schedulers.queue_depths(), "the probes are placed")
        placed = [(fact.event[3], fact.by) for fact in all_facts(cell, since) if fact.event[0] == "place"]
        return all(owners[by][bucket_of(job)] == "1" for job, by in placed if job.startswith("probe"))

    until(share, f"{', '.join(members)} share their jobs")
    return probes


# Results


def all_facts(cell: RedisCell, since: int = 0) -> list[Fact]:
    """Everything in the log after a version."""
    found: list[Fact] = []
    while chunk := cell.log.facts(since, 2000):
        found += chunk
        since = chunk[-1].version
    return found


def seen(cell: RedisCell, *words: str) -> list[Fact]:
    """The facts that begin with such words."""
    return [fact for fact in all_facts(cell) if fact.event[: len(words)] == words]


def check_all_ended(cell: RedisCell, jobs: Sequence[JobSpec]) -> Ledger:
    """Every task of `jobs` ran to its end exactly once, none lost, none doubled, and the cell is as its rules say."""
    facts = all_facts(cell)
    ledger = Ledger.of(facts)
    groups = [(job.id, str(number), group.count) for job in jobs for number, group in enumerate(job.groups)]
    wanted = {(job, number, task) for job, number, count in groups for task in range(count)}
    uneven = {task for task in wanted if ledger.placed[task] != 1 + ledger.returned[task]}
    for what, tasks in {
        "not finished": wanted - set(ledger.finished),
        "finished and not submitted": set(ledger.finished) - wanted,
        "finished twice": {task for task, times in ledger.finished.items() if times > 1},
        "placed oftener or less often than returned and ended": uneven,
    }.items():
        assert not tasks, f"{what}: {lives_of(facts, tasks)}"
    check(cell)
    return ledger


def check(cell: RedisCell) -> None:
    """``omega cell verify`` finds nothing."""
    report = verify(cell)
    assert report.violations == (), report.violations
    assert report.ok


def unfinished(cell: RedisCell) -> int:
    """Tasks of all kept jobs that are neither finished, failed nor stopped."""
    return sum(group.unplaced + group.placed for job in cell.jobs.all() for group in job.groups)
