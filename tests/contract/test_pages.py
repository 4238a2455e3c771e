"""Lists in pages, jobs in short: the same of the store and the twin."""

import pytest

from omega.cellstate.cell import Cell
from omega.cellstate.model import JobSpec, JobState, MachineSpec, MachineState, TaskGroup
from omega.cellstate.pages import JobHead, JobPage, head_of


def submit(cell: Cell, number: int) -> list[str]:
    ids = [f"j{i}" for i in range(number)]
    specs = [
        JobSpec(job_id, job_id, "odd" if i % 2 else "even", (TaskGroup((100, 10), 2), TaskGroup((7, 1), i + 1)),
                spec={"user": "ada" if i < 3 else "bob"})
        for i, job_id in enumerate(ids)
    ]  # fmt: skip
    cell.jobs.submit(specs, 1, "ada")
    return ids


def test_pages_together_are_the_list(cell: Cell) -> None:
    ids = submit(cell, 7)
    found, before = list[str](), None
    while True:
        page = cell.jobs.page(3, before)
        assert page.total == 7
        found = [job.id for job in page.jobs] + found
        before = page.before
        if before is None:
            break
    assert found == ids
    assert cell.jobs.page().jobs == cell.jobs.all()
    assert cell.jobs.page(7).before is None


@pytest.mark.parametrize(
    ("kind", "user", "wanted"),
    [("odd", None, ["j1", "j3", "j5"]), (None, "ada", ["j0", "j1", "j2"]), ("odd", "ada", ["j1"])],
)
def test_a_page_of_some(cell: Cell, kind: str | None, user: str | None, wanted: list[str]) -> None:
    submit(cell, 7)
    keep = None if kind is None else lambda head: head.kind == kind
    assert [job.id for job in cell.jobs.page(keep=keep, user=user).jobs] == wanted
    assert cell.jobs.page(keep=keep, user=user).total == len(wanted)
    pages, before = list[JobPage](), None
    while not pages or before:
        pages.append(cell.jobs.page(1, before, keep, user))
        before = pages[-1].before
    assert [job.id for page in reversed(pages) for job in page.jobs] == wanted
    assert [(page.total, page.left) for page in pages[:-1]] == [(None, None)] * (len(pages) - 1), "not looked further"
    assert pages[-1].left == 0
    assert cell.jobs.page(7, keep=keep, user=user)[0::2] == (len(wanted), None)


def test_a_full_page_of_some_reads_no_older_jobs(cell: Cell) -> None:
    submit(cell, 300)
    looked = list[str]()

    def keep(head: JobHead) -> bool:
        looked.append(head.id)
        return True

    page = cell.jobs.page(5, keep=keep)
    assert [job.id for job in page.jobs] == [f"j{i}" for i in range(295, 300)]
    assert len(looked) <= 20
    assert (page.before, page.total) == (page.jobs[0].order, None)


def test_a_job_in_short_is_the_job(cell: Cell) -> None:
    submit(cell, 4)
    cell.jobs.stop("j2", 2, "ada")
    cell.jobs.hold("j3", 2, "ada")
    heads = sorted(cell.jobs.heads(), key=lambda head: head.order)
    assert heads == [head_of(job) for job in cell.jobs.all()]
    assert [head.state for head in heads] == [JobState.ACTIVE, JobState.ACTIVE, JobState.STOPPED, JobState.HELD]
    assert (heads[1].counts.total, heads[1].counts.unplaced, heads[1].wanted) == (4, 4, (214, 22))
    assert (heads[2].counts.stopped, heads[2].wanted) == (5, (0, 0))


def test_single_machines(cell: Cell) -> None:
    indices = cell.machines.join("here", [MachineSpec(f"m{i}", (1000, 100), {"rack": "r1"}) for i in range(5)], 1)
    cell.machines.set_state(indices[2], MachineState.GONE, 2, "ada")
    found = cell.machines.at([indices[4], indices[2], indices[0], 99])
    assert [machine.name for machine in found] == ["m4", "m0"]
    assert found == [each for name in ("m4", "m0") for each in cell.machines.all() if each.name == name]


def test_facts_of_some_kinds_are_those_of_all(cell: Cell) -> None:
    machine = cell.machines.join("here", [MachineSpec("m0", (1000, 100))], 1)[0]
    submit(cell, 2)
    cell.jobs.stop("j1", 2, "ada")
    cell.machines.set_state(machine, MachineState.DOWN, 3, "ada")
    everything = cell.log.facts()
    assert {fact.event[0] for fact in everything} > {"join", "submit", "stop", "machine"}
    assert cell.log.facts(kinds=("stop", "machine")) == [f for f in everything if f.event[0] in ("stop", "machine")]
    assert cell.log.facts(kinds=()) == []
