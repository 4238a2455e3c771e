"""A small trace of each format, whole and broken."""

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.recording.file import Writer
from omega.recording.recorder import Recorder
from tests.unit.omega.traces.tiny_google import MACHINES, at, job, task, write

JOBS = 300


def _google(directory: Path) -> Path:
    rows = [(task(0, 1, 0, 0)), task(0, 1, 0, 1)]
    rows += [task(at(number % 97 + 1), number, 0, 0) for number in sorted(range(2, JOBS), key=lambda n: n % 97)]
    half = len(rows) // 2
    write(directory / "machine_events" / "part-00000-of-00001.csv.gz", MACHINES)
    write(directory / "job_events" / "part-00000-of-00500.csv.gz", [job(0, 1)])
    for number, part in enumerate((rows[:half], rows[half:], [task(at(200), JOBS, 0, 0)])):
        write(directory / "task_events" / f"part-{number:05}-of-00500.csv.gz", part)
    return directory


def _packed(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def _swf(directory: Path) -> Path:
    rows = (
        f"{n} {n * 7 % 211} 1 {n % 50} {n % 3 + 1} -1 -1 -1 60 -1 1 {n % 5} 1 -1 {n % 2} -1 -1 -1\n"
        for n in range(JOBS)
    )
    return _packed(directory / "log.swf.gz", "; MaxProcs: 64\n" + "".join(rows))


def _swim(directory: Path) -> Path:
    rows = (f"job{n}\t{n * 7 % 211}\t1\t{n * 10**6}\t{n % 2}\t5\tpath{n % 9}\tout\n" for n in range(JOBS))
    return _packed(directory / "jobs.tsv.gz", "".join(rows))


def _alibaba(directory: Path) -> Path:
    nodes = "".join(f"n{n},64000,262144,{n % 3},{'T4' if n % 3 else ''}\n" for n in range(9))
    pods = "".join(
        f"p{n},1000,1024,{n % 2},{500 if n % 4 == 1 else 1000},,LS,Running,{n * 7 % 211},{900 + n},{300 + n}\n"
        for n in range(JOBS)
    )
    header = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    )
    _packed(directory / "openb_node_list_all_node.csv.gz", f"sn,cpu_milli,memory_mib,gpu,model\n{nodes}")
    _packed(directory / "openb_pod_list_default.csv.gz", f"{header}\n{pods}")
    return directory


def _omega(directory: Path) -> Path:
    """Record a cell of the twin, in which one job arrives every 0.7 s and every third one ends at once."""
    cell = MemoryCell()
    cell.executors.register("simulated", "n", 1, 0)
    cell.machines.join("simulated", [MachineSpec(f"m{n}", (9_000, 9_000)) for n in range(9)], 0)
    member = cell.schedulers.register("batch/0", "n", 1, 0)
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "a.rec.gz").open("wb") as file:
        recorder = Recorder(cell, Writer(file))
        for n in range(JOBS):
            cell.now_ms = at_ms = 700 * n
            cell.jobs.submit(
                [JobSpec(f"j{n}", f"j{n}", "batch", (TaskGroup((100, 10), 1 + n % 3, 5_000),))], at_ms, "ada"
            )
            claims = Transaction(f"j{n}", (Claim(n % 9, 0, 1 + n % 3),))
            cell.schedulers.commit(CommitRequest(member, n + 1, [claims], Position(), at_ms))
            if n == JOBS // 10:
                recorder.begin()
            if n % 3 == 0:
                cell.executors.end([TaskEnd(n % 9, n + 1, EndKind.FINISHED)], at_ms, "simulated")
            if n > JOBS // 10:
                recorder.step()
        recorder.end("time")
    return directory / "a.rec.gz"


@dataclass(frozen=True)
class Sample:
    """A trace: how to write it, the file with most of its rows, and how many jobs of it arrive at most."""

    write: Callable[[Path], Path]
    file: str
    bad_row: str
    arrivals: int = JOBS


SAMPLES: Mapping[str, Sample] = {
    "google-2011": Sample(_google, "task_events/part-00001-of-00500.csv.gz", "1,2,3\n", JOBS - 1),
    "swf": Sample(_swf, "log.swf.gz", "1 2 3\n"),
    "swim": Sample(_swim, "jobs.tsv.gz", "a\tb\tc\td\te\tf\n", 2 * JOBS),
    "omega": Sample(_omega, "a.rec.gz", "{}\n"),
    "alibaba-gpu-2023": Sample(_alibaba, "openb_pod_list_default.csv.gz", "a,b\n"),
}
