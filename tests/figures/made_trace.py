"""A made trace whose saturation is known: jobs at equal gaps, with known tasks."""

from pathlib import Path

from tests.unit.omega.traces.tiny_google import SECOND, START, Row, job, on, task, write_trace

SUBMIT, SCHEDULE, FINISH = 0, 1, 4
GAP, SECONDS = 4, 1_200
TASKS = (1, 3)
"""Tasks of batch jobs, in turn."""
MEAN_TASKS = sum(TASKS) / len(TASKS)
MACHINES: list[Row] = [(0, number, 0, "made", 1, 1) for number in range(1, 31)]
SERVICE_GAP = 10


def write_made(directory: Path, *, service_gap: int = SERVICE_GAP, cpu: float = 0.05, lasts: int = 20) -> Path:
    """Write 300 batch jobs and a service job each `service_gap` seconds; ten machines hold a resident each."""
    jobs: list[Row] = []
    tasks: list[Row] = []
    for number in range(10):
        resident = 5_000 + number
        there = {"priority": 9, "scheduling_class": 2, "cpu": 0.5, "memory": 0.5}
        tasks += [on(number + 1, task(0, resident, 0, event, **there)) for event in (SUBMIT, SCHEDULE)]  # type: ignore[arg-type]
    for number, at in enumerate(range(0, SECONDS, GAP)):
        for index in range(TASKS[number % len(TASKS)]):
            tasks += _runs(at + 1, 1_000 + number, index, lasts, cpu, priority=0, scheduling_class=0)
        jobs.append(job(START + (at + 1) * SECOND, 1_000 + number))
    for number, at in enumerate(range(2, SECONDS, service_gap)):
        tasks += _runs(at + 1, 9_000 + number, 0, lasts, cpu, priority=9, scheduling_class=2)
        jobs.append(job(START + (at + 1) * SECOND, 9_000 + number, scheduling_class=2))
    tasks = [row for row in tasks if int(str(row[0])) <= START + SECONDS * SECOND]
    tasks.sort(key=lambda row: int(str(row[0])))
    jobs.sort(key=lambda row: int(str(row[0])))
    write_trace(directory, jobs, tasks, machines=MACHINES)
    return directory


def _runs(at: int, number: int, index: int, lasts: int, cpu: float, **kind: int) -> list[Row]:
    times = ((at, SUBMIT), (at + 1, SCHEDULE), (at + 1 + lasts, FINISH))
    return [
        on(1, task(START + when * SECOND, number, index, event, cpu=cpu, memory=0.02, **kind)) for when, event in times
    ]
