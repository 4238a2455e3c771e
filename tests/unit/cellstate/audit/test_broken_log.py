"""What the facts of the log contradict is reported, whole or trimmed."""

from collections.abc import Callable

import pytest

from omega.cellstate.tasks import EndKind
from omega.cellstate.verify import verify
from tests.unit.cellstate.audit.test_broken_cell import spoken
from tests.unit.cellstate.audit.town import Town

Edit = Callable[[Town], object]

# Invariant, where, a piece of what is said; what is done to the log.
FACTS: list[tuple[int, str, str, Edit]] = [
    (1, "machine 0", "placement 1 left [4004, 200]",
     lambda t: t.replace_fact("part 0 0-3 100,50", "part 0 0-3 1001,50")),
    (1, "placement 2", "takes 101, 50 a task, others of its group do not",
     lambda t: t.replace_fact("part 0 4-6 100,50", "part 0 4-6 101,50")),
    (1, "machine 0", "[1000, 501] allocated after the end of placement 3, by the facts [1000, 500]",
     lambda t: t.replace_fact("6 1000,500 drain", "6 1000,501 drain")),
    (1, "machine 2", "[3999, 40] allocated after an eviction, which its transaction does not leave",
     lambda t: t.replace_fact("3 4000,40 precedence", "3 3999,40 precedence")),
    (3, "machine 0", "its number went from 4 to 6",
     lambda t: t.replace_fact("failed 3 0 many 0 5 5", "failed 3 0 many 0 5 6")),
    (3, "machine 5", "its number went from 3 to 3",
     lambda t: t.replace_fact("done 0 0-1 4", "done 0 0-1 3")),
    (3, "machine 5", "its number went from 7 to 6",
     lambda t: t.replace_fact("join 5 m5 22", "join 5 m5 6")),
    (3, "machine 7", "its number went from 2 to 5",
     lambda t: t.replace_fact("join 7 m7 3", "join 7 m7 5")),
    (3, "machine 3", "never joined",
     lambda t: t.replace_fact("place 6 3", "").replace_fact("place 8 3", "")
                .replace_fact("place 15 3", "").replace_fact("join 3 ", "")),
    (5, "placement 8", "came after 6",
     lambda t: t.replace_fact("place 7 4", "")),
    (5, "placement 7", "came after 7",
     lambda t: t.replace_fact("place 8 3", "place 7 3")),
    (5, "placement 3", "tasks 9 ended, of which only - were placed",
     lambda t: t.replace_fact("failed 3 0 many 0 5", "failed 3 0 many 0 9")),
    (5, "placement 10", "is not placed (any more)",
     lambda t: t.replace_fact("finished 3 0 many 0 2,4", "finished 10 5 done 0 0-1")),
    (5, "placement 10", "tasks 0 left, of which only - were leaving",
     lambda t: t.replace_fact("left 3 0 many 0 9", "left 10 5 done 0 0")),
    (5, "placement 99", "is not placed (any more)",
     lambda t: t.replace_fact("left 3 0", "left 99 0")),
    (5, "placement 3", "tasks 8-9 left, of which only 9",
     lambda t: t.replace_fact("left 3 0 many 0 9", "left 3 0 many 0 8-9")),
    (5, "placement 4", "ends as (1, 'many', 0)",
     lambda t: t.replace_fact("lost 4 1 many 1", "lost 4 1 many 0")),
    (3, "log 34", "fact 'nonsense' cannot be read",
     lambda t: t.replace_fact("join 5 m5 22", "nonsense\njoin 5 m5 22")),
    (5, "placements", "restore: goes on with 13 as the last id, after 14",
     lambda t: t.replace_fact("join 5 m5 22", "restore 30 13\njoin 5 m5 22")),
    (5, "placement 15", "its id came after 16",
     lambda t: t.replace_fact("join 5 m5 22", "restore 30 16\njoin 5 m5 22")),
    (5, "placement 1", "is on a machine and not in the log, or ended there",
     lambda t: t.replace_fact("join 5 m5 22", "finished 1 0 part 0 0-3 7 600,300 -\njoin 5 m5 22")),
    (5, "placement 3", "evicted for '-'",
     lambda t: t.replace_fact("1000,500 drain", "1000,500 -")),
    (5, "placement 3", "evicted for 'whim:of mine'",
     lambda t: t.replace_fact("1000,500 drain", "1000,500 whim:of mine")),
    (5, "placement 5", "evicted for gang, which placed nothing",
     lambda t: t.replace_fact("precedence:high", "precedence:gang")),
    (5, "placement 5", "precedence 9 of job low gave way to 9 of high",
     lambda t: t.replace_fact("submit low low-name batch 0", "submit low low-name batch 9")),
    (2, "gang gang", "left 1 unplaced",
     lambda t: t.replace_fact("gang 0 2-3", "gang 0 2")),
    (2, "gang gang", "evicted some of its tasks and left 2 placed",
     lambda t: [t.end("gang", 4, EndKind.EVICTED, "*", "drain"), t.job("gang", gang=2)]),
    (2, "gang gang", "evicted some of its tasks and left 2 placed",
     lambda t: [t.end("gang", 4, EndKind.EVICTED, "*", "drain"), t.job("gang", gang=2, gang_min=3)]),
]  # fmt: skip


@pytest.mark.parametrize(("invariant", "where", "what", "edit"), FACTS)
def test_a_broken_fact_is_reported(town: Town, invariant: int, where: str, what: str, edit: Edit) -> None:
    edit(town)
    report = verify(town.cell)
    assert not report.ok
    assert spoken(report, invariant, where, what), report.violations


def test_a_strict_gang_that_keeps_its_minimum_is_not_torn(town: Town) -> None:
    town.end("gang", 4, EndKind.EVICTED, "*", "drain")
    town.job("gang", gang=2, gang_min=2)
    assert not spoken(verify(town.cell), 2, "gang gang", "evicted some of its tasks")


def test_a_restored_cell_goes_on_with_the_ids_that_its_backup_had(town: Town) -> None:
    town.replace_fact("join 5 m5 22", "restore 30 14\njoin 5 m5 22")
    assert verify(town.cell).ok


@pytest.mark.parametrize("start", [3, 5, 8, 9, 12, 15, 19, 23, 30, 33, 35])
def test_what_remains_of_a_trimmed_log_is_checked(town: Town, start: int) -> None:
    town.rewrite_log(str, start=start)
    report = verify(town.cell)
    assert report.ok, report.violations
    assert report.log_from_version == start


# As above, with the oldest version that is left: what began before is known from the records alone.
TRIMMED: list[tuple[int, int, str, str, Edit]] = [
    (7, 5, "placement 5", "precedence 9 of job low gave way to 9 of high",
     lambda t: t.job("low", precedence=9)),
    (7, 2, "gang part", "left 3 unplaced",
     lambda t: t.job("part", gang=1)),
    (7, 1, "job strict group 0", "its need is (100, 10), by the log (5000, 10)",
     lambda t: t.replace_fact("strict 0 0 100", "strict 0 0 5000", start=7)),
    (15, 5, "placement 3", "tasks 2 ended before",
     lambda t: t.replace_fact("failed 3 0 many 0 5", "failed 3 0 many 0 2", start=15)),
    (15, 5, "placement 3", "tasks 2 ended and run again",
     lambda t: t.edit("runs", 0, "3:many:0:0-1,3", "3:many:0:0-3")),
    (14, 5, "placement 10", "is not placed (any more)",
     lambda t: t.replace_fact("lost 9 5 strict", "lost 10 5 strict", start=14)),
    (15, 5, "placement 12", "by the log 2-4",
     lambda t: t.edit("runs", 1, " 12:halt:0:2-4", " 12:halt:0:2-3")),
    (15, 3, "machine 1", "its number went from 5 to 8",
     lambda t: t.replace_fact("7-8 6 1300", "7-8 8 1300", start=15)),
]  # fmt: skip


@pytest.mark.parametrize(("start", "invariant", "where", "what", "edit"), TRIMMED)
def test_a_broken_fact_is_reported_from_a_trimmed_log(
    town: Town, start: int, invariant: int, where: str, what: str, edit: Edit
) -> None:
    town.rewrite_log(str, start=start)
    edit(town)
    report = verify(town.cell)
    assert report.log_from_version == start
    assert spoken(report, invariant, where, what), report.violations


def test_a_machine_may_be_over_when_it_came_back_smaller_before_the_log_begins(town: Town) -> None:
    town.rewrite_log(str, start=33)
    assert town.cell.machines.all()[7].over
    assert verify(town.cell).ok
