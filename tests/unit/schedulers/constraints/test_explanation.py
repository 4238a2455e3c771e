"""Why a job is pending: counts per demand in order, and a reason that scripts can rely on."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from omega.cellstate.model import Gang, JobState, Limits, MachineState
from omega.cellstate.replies import KindUse
from omega.schedulers.constraints.explanation import Explanation, explain
from omega.schedulers.constraints.reasons import Reason
from omega.schedulers.placement.service import ServicePlacement
from tests.unit.schedulers.constraints.site import asking, demanding, racks, site
from tests.unit.schedulers.drive import copy, group, room, say, work

NAMES = ("cpu", "memory")


def counts(found: Explanation, part: int = 0) -> list[tuple[str, int, int]]:
    """(what, machines excluded, machines that remain) of each step."""
    return [(step.what, step.excludes, step.remaining) for step in found.parts[part].steps]


def test_each_demand_with_what_it_excludes_of_what_is_left() -> None:
    machines = [{"platform": "x86" if i % 5 else "arm", "rack": f"r{i // 4}"} for i in range(20)]
    snapshot = site(*machines)
    for machine in range(4, 20):
        snapshot.take(machine, (99, 0), 1)
    asked = {"constraints": ["platform == 'x86'"], "spread": [{"domain": "rack", "most": 2}]}
    found = asking(asked, 10, need=(2, 64))
    found.places = {0: 1, 1: 1}
    said = explain(found, snapshot, names=NAMES)
    assert (said.reason, said.machines, said.unplaced) == (Reason.SPREAD, 20, 10)
    assert counts(said) == [
        ("constraint platform == 'x86'", 4, 16),
        ("cpu 2m", 13, 3),
        ("memory 64Mi", 0, 3),
        ("spread rack ≤ 2", 3, 0),
    ]
    assert said.parts[0].fits == 0


def test_a_step_that_rules_nothing_out_says_so() -> None:
    said = explain(asking({"constraints": ["rack == 'r0'", "has rack"]}, 1), site({"rack": "r1"}))
    assert counts(said) == [
        ("constraint rack == 'r0'", 1, 0), ("constraint has rack", 0, 0),
        ("resource 0 1", 0, 0), ("resource 1 1", 0, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("extra", "more", "reason"),
    [
        ({}, {}, Reason.WAITING),
        ({"constraints": ["rack == 'r1'"]}, {}, Reason.WAITING),
        ({"constraints": ["rack == 'r9'"]}, {}, Reason.CONSTRAINT),
        ({"constraints": ["rakc == 'r1'"]}, {}, Reason.CONSTRAINT),
        ({"constraints": ["rack = 'r1'"]}, {}, Reason.CONSTRAINT),
        ({"constraints": ["rack == 'r0'", "rack == 'r1'"]}, {}, Reason.CONSTRAINT),
        ({"near": {"job": "db", "required": True}}, {}, Reason.CONSTRAINT),
        ({}, {"need": (101, 1)}, Reason.TOO_LARGE),
        ({"constraints": ["rack == 'r1'"]}, {"need": (1, 101)}, Reason.TOO_LARGE),
        ({}, {"tasks": 500}, Reason.RESOURCES),
        ({"different_machines": True}, {"tasks": 5}, Reason.SPREAD),
        ({"spread": [{"domain": "rack", "most": 1}]}, {"tasks": 3}, Reason.SPREAD),
        ({"spread": [{"domain": "rack", "share": 0.3}]}, {"tasks": 10}, Reason.SPREAD),
        ({"spread": [{"domain": "machine", "most": 2}]}, {"tasks": 9}, Reason.SPREAD),
        ({"spread": [{"domain": "power", "most": 1}]}, {}, Reason.SPREAD),
        ({"spread": ["power"]}, {}, Reason.WAITING),
        ({}, {"state": JobState.HELD}, Reason.HELD),
        ({}, {"state": JobState.STOPPED}, Reason.DONE),
        ({}, {"tasks": 0}, Reason.PLACED),
    ],
)
def test_reasons(extra: dict[str, Any], more: dict[str, Any], reason: Reason) -> None:
    """Two racks of two machines, a hundred tasks of one unit on each."""
    assert explain(asking(extra, **{"tasks": 1, **more}), site(*racks(2, 2))).reason is reason


@pytest.mark.parametrize("state", [MachineState.DOWN, MachineState.DRAINED, MachineState.GONE])
def test_a_cell_with_nothing_up(state: MachineState) -> None:
    said = explain(work("a"), site({}, {}, state=state))
    assert said.reason is Reason.NO_MACHINE
    assert explain(work("a"), site()).reason is Reason.NO_MACHINE
    assert said.machines == (0 if state is MachineState.GONE else 2)


def test_machines_that_are_not_up_come_first() -> None:
    snapshot = copy((5, 5), (5, 5), (5, 5))
    say(snapshot, 0, -1, -1)
    snapshot.take(2, (1, 1), 1)
    assert counts(explain(work("a", group((5, 5), 2)), snapshot, names=NAMES)) == [
        ("up", 1, 2), ("cpu 5m", 2, 0), ("memory 5Mi", 0, 0),  # one has no room, the other for one task of two
    ]  # fmt: skip


def test_what_a_whole_machine_could_not_hold_is_told_apart_from_what_is_used() -> None:
    snapshot = copy((5, 5), (9, 9))
    snapshot.take(1, (9, 9), 1)
    assert explain(work("a", group((8, 1), 1)), snapshot).reason is Reason.RESOURCES
    assert explain(work("a", group((10, 1), 1)), snapshot).reason is Reason.TOO_LARGE


def test_a_fault_is_told_in_its_words() -> None:
    said = explain(asking({"constraints": ["rack = 'a'"]}), site({"rack": "a"}))
    assert "position 6" in said.parts[0].fault
    assert counts(said)[0] == (said.parts[0].fault, 1, 0)


def test_a_domain_that_no_machine_has_is_told() -> None:
    said = explain(asking({"spread": [{"domain": "powr", "most": 3}]}), site({"power": "a"}, {"power": "b"}))
    assert ("spread powr: no such attribute", 2, 0) in counts(said)


def test_a_gang_is_told_what_its_last_tasks_meet() -> None:
    snapshot = site(*racks(3, 2))
    said = explain(asking({"spread": [{"domain": "rack", "most": 2}]}, 8, gang=Gang.YES), snapshot, names=NAMES)
    assert (said.reason, said.parts[0].fits, said.parts[0].unplaced) == (Reason.SPREAD, 6, 8)
    assert counts(said)[-1] == ("spread rack ≤ 2", 6, 0)


def test_groups_are_explained_one_by_one() -> None:
    fine, lost = group((1, 1), 2), group((1, 1), 3)
    found = demanding((fine, {}), (lost, {"constraints": ["has gpu"]}), (group((1, 1), 2, unplaced=0), {}))
    said = explain(found, site({}, {}))
    assert [(part.group, part.unplaced, part.fits, part.reason) for part in said.parts] == [
        (0, 2, 2, Reason.WAITING), (1, 3, 0, Reason.CONSTRAINT),
    ]  # fmt: skip
    assert said.reason is Reason.CONSTRAINT


@pytest.mark.parametrize(
    ("limits", "jobs", "used", "detail"),
    [
        (Limits((None, None)), 9, (9, 9), ""),
        (Limits((10, None)), 1, (9, 9), ""),
        (Limits((10, None)), 1, (10, 9), "kind service, cpu: 10m of at most 10m in use, a task needs 1m; 1m short"),
        (Limits((None, None), jobs=3), 3, (0, 0), "kind service, jobs: 3 of at most 3 in use, a job needs 1; 1 short"),
        (Limits((None, None), precedence=(0, 5)), 0, (0, 0), "precedence 7 is not within 0 to 5 of kind service"),
    ],
)
def test_limits_of_the_kind(limits: Limits, jobs: int, used: tuple[int, int], detail: str) -> None:
    found = asking({}, precedence=7)
    said = explain(found, site({}), KindUse(limits, jobs, used), NAMES)
    assert (said.detail, said.reason) == (detail, Reason.LIMIT if detail else Reason.WAITING)


def test_a_job_that_runs_already_is_admitted() -> None:
    found = demanding((group((1, 1), 2, unplaced=1), {}))
    use = KindUse(Limits((None, None), jobs=1), 1, (1, 1))
    assert explain(found, site({}), use).reason is Reason.WAITING


EXTRAS = st.sampled_from([
    {}, {"constraints": ["rack == 'r0'"]}, {"different_machines": True}, {"spread": [{"domain": "rack", "most": 2}]},
    {"spread": [{"domain": "rack", "share": 0.4}, "machine"]}, {"constraints": ["has gpu"]},
])  # fmt: skip
FREE = st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 4)), min_size=1, max_size=8)


@given(EXTRAS, FREE, st.integers(1, 12), st.booleans(), st.integers(0, 5))
def test_it_agrees_with_the_placement_and_changes_nothing(
    extra: dict[str, Any], free: list[tuple[int, int]], tasks: int, gang: bool, seed: int
) -> None:
    snapshot = site(*racks(len(free), 1))
    for machine, (cpu, memory) in enumerate(free):
        say(snapshot, machine, *((-1, -1) if cpu < 0 else (cpu, memory)))
    found = asking(extra, tasks, gang=Gang.YES if gang else Gang.NO)
    before = room(snapshot)
    said = explain(found, snapshot)
    assert (room(snapshot), snapshot.mark(), found.left) == (before, 0, [tasks])
    placed = sum(claim.count for claim in ServicePlacement().place(found, snapshot, Random(seed)))
    (part,) = said.parts
    assert placed == (part.fits if not gang or part.fits == tasks else 0)
    assert (said.reason is Reason.WAITING) == (part.fits == tasks)
    if part.fits < tasks:
        assert part.steps[-1].remaining == 0, "nothing is left once everything was told"
