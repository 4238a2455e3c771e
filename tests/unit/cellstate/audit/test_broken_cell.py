"""Every rule of the audit, broken on its own in the store of a healthy cell, is reported."""

from collections.abc import Callable

import pytest

from omega.cellstate.invariants import GROUP_RULES, OF_MEMORY
from omega.cellstate.model import bucket_of
from omega.cellstate.verify import LOG_RULES_OF_MEMORY, Report, verify
from tests.unit.cellstate.audit.town import Town

Edit = Callable[[Town], object]

NUMBER, STATE, EXECUTOR, CAPACITY, ALLOCATED = 1, 2, 3, 4, 6
"""Words of a machine's record; cpu of the two amounts."""


def queued(job: str) -> str:
    """Where the queue has a job."""
    return f"pending:batch {bucket_of(job):02x}{job}"


# The rule that must speak, its invariant, where, a piece of what it says; what is done to the store.
RECORDS: list[tuple[str, int, str, str, Edit]] = [
    ("machines_are_valid", 1, "machine 0", "negative",
     lambda t: t.words("machines", 0, ALLOCATED, -1)),
    ("machines_are_valid", 1, "machine 0", "state 7",
     lambda t: t.words("machines", 0, STATE, 7)),
    ("machines_are_valid", 1, "machine 0", "executor 0",
     lambda t: t.words("machines", 0, EXECUTOR, 0)),
    ("machines_are_valid", 1, "machine 4", "down and still holds",
     lambda t: t.words("machines", 4, STATE, 2)),
    ("amounts_follow_from_placements", 1, "machine 1", "not the sum",
     lambda t: t.words("machines", 1, ALLOCATED, 1200)),
    ("amounts_follow_from_placements", 1, "machine 0", "not the sum",
     lambda t: t.group("part", need=(101, 100))),
    ("machines_follow_from_log", 1, "machine 0", "allocated",
     lambda t: t.words("machines", 0, ALLOCATED, 900)),
    ("machines_follow_from_log", 1, "machine 6", "capacity",
     lambda t: t.words("machines", 6, CAPACITY, 1500)),
    ("machines_follow_from_log", 1, "machine 4", "state is 0",
     lambda t: t.words("machines", 4, STATE, 0)),
    ("groups_follow_from_log", 1, "job done group 0", "its need is (11, 10), by the log (10, 10)",
     lambda t: t.group("done", need=(11, 10))),
    ("machines_follow_from_log", 1, "machine 0", "did not come back smaller",
     lambda t: t.words("machines", 0, CAPACITY, 999)),
    ("runs_are_in_job_records", 2, "job gang group 0", "in the job's record only",
     lambda t: t.put("runs", 4, "")),
    ("runs_are_in_job_records", 2, "job many group 1", "[(4, 1, False)] on machines only",
     lambda t: t.group("many", 1, runs="")),
    ("runs_are_in_job_records", 2, "job halt group 0", "leaving) [(12, 1, True)]",
     lambda t: t.edit("runs", 1, " !12:halt:0:0-1", "")),
    ("runs_are_in_job_records", 2, "job ghost group 0", "not kept",
     lambda t: t.put("runs", 5, " 9:ghost:0:0")),
    ("runs_are_in_job_records", 2, "job ghost group 0", "not kept",
     lambda t: t.put("runs", 5, " !9:ghost:0:0")),
    ("runs_are_in_job_records", 2, "job part group 3", "not kept",
     lambda t: t.edit("runs", 1, "2:part:0", "2:part:3")),
    ("a_task_runs_once", 2, "job part group 0", "tasks 3 have",
     lambda t: t.edit("runs", 1, "part:0:4-6", "part:0:3-6")),
    ("placement_ids_are_unique", 2, "placement 15", "never given out",
     lambda t: t.put("meta", "placements", 14)),
    ("placement_ids_are_unique", 2, "placement 6", "names several runs",
     lambda t: t.edit("runs", 4, " 7:gang", " 6:gang")),
    ("placement_ids_are_unique", 2, "placement 5", "tasks 2 both run and leave",
     lambda t: t.edit("runs", 2, "5:low:0:0-1", "5:low:0:0-2")),
    ("log_is_whole", 3, "log", "entries for the",
     lambda t: t.client.xdel(t.prefix + "log", "15-0")),
    ("machines_follow_from_log", 3, "machine 3", "its number is 9",
     lambda t: t.words("machines", 3, NUMBER, 9)),
    ("machines_follow_from_log", 3, "machine 7", "not in the cell",
     lambda t: t.drop("machines", "7")),
    ("groups_follow_from_log", 4, "job many group 1", "tasks 7 are delayed, by the log 7-8",
     lambda t: t.shorten_loss("many", 1, "~7-8:", "~7:")),
    ("counts_add_up", 4, "job part group 0", "do not make its total",
     lambda t: t.group("part", stopped=1)),
    ("counts_add_up", 4, "job part group 0", "do not make its total",
     lambda t: t.group("part", total=11, indices=11)),
    ("counts_add_up", 4, "job part group 0", "and 2 wait",
     lambda t: t.group("part", waiting="7,9")),
    ("counts_add_up", 4, "job part group 0", "count as placed and 7 are",
     lambda t: t.group("part", placed=8)),
    ("counts_add_up", 4, "job part group 0", "beyond its 10",
     lambda t: t.group("part", waiting="7-8,10")),
    ("counts_add_up", 4, "job part group 0", "has 10 tasks, and only 9 indices were given out",
     lambda t: t.group("part", indices=9)),
    ("counts_add_up", 4, "job part group 0", "beyond its 10: 7-9 wait, 0-5,10 are placed",
     lambda t: t.edit("runs", 1, "part:0:4-6", "part:0:4-5,10")),
    ("counts_add_up", 4, "job next group 0", "tasks 2 wait twice",
     lambda t: t.group("next", waiting="0-2,2")),
    ("counts_add_up", 4, "job part group 0", "tasks 6 wait twice, or wait and are placed",
     lambda t: t.group("part", waiting="6-8")),
    ("states_fit_counts", 4, "job done", "active with nothing left",
     lambda t: t.job("done", state=0)),
    ("states_fit_counts", 4, "job part", "stopped with 3 tasks unplaced",
     lambda t: t.job("part", state=2)),
    ("states_fit_counts", 4, "job gang", "done with 4 tasks placed",
     lambda t: t.job("gang", state=4)),
    ("waits_are_mutual", 4, "job held", "held and held back by nobody",
     lambda t: t.job("held", links="")),
    ("waits_are_mutual", 4, "job part", "active and held back by a person",
     lambda t: t.job("part", links="<*")),
    ("waits_are_mutual", 4, "job next", "waits for last, which does not know of it",
     lambda t: t.job("last", links="")),
    ("waits_are_mutual", 4, "job next", "waits for done, which has ended",
     lambda t: t.job("next", links="<done")),
    ("names_and_numbers_are_of_one_job", 4, "job part", "is live, and last is newer",
     lambda t: t.job("part", name="last-name")),
    ("indexes", 4, queued("part"), "is not there, by the records it is",
     lambda t: t.queue("batch", "part", None)),
    ("indexes", 4, queued("gang"), "and no record gives it",
     lambda t: t.queue("batch", "gang", 99)),
    ("indexes", 4, queued("high"), "and no record gives it",
     lambda t: t.queue("batch", "high", 99)),
    ("indexes", 4, "pending:batch 00ghost", "and no record gives it",
     lambda t: t.queue("batch", "ghost", 99)),
    ("indexes", 4, "jobnames part-name", "is not there, by the records it is 'part'",
     lambda t: t.drop("jobnames", "part-name")),
    ("indexes", 4, "jobnames part-name", "is 'gang', by the records 'part'",
     lambda t: t.put("jobnames", "part-name", "gang")),
    ("indexes", 4, "jobnames done-name", "is 'part', by the records 'done'",
     lambda t: t.put("jobnames", "done-name", "part")),
    ("indexes", 4, "jobnames nobody", "is 'part', and no record gives it",
     lambda t: t.put("jobnames", "nobody", "part")),
    ("jobs_follow_from_log", 4, "job many", "by the log (4, 13, 2, 1, 0)",
     lambda t: t.group("many", finished=1, failed=2)),
    ("jobs_follow_from_log", 4, "job part", "its precedence is 3, by the log 0",
     lambda t: t.job("part", precedence=3)),
    ("jobs_follow_from_log", 4, "job held", "is not kept, with 10",
     lambda t: t.queue("batch", "held", None).drop("jobs", "held").drop("jobnames", "held-name")),
    ("placements_follow_from_log", 5, "placement 1", "tasks 0-2,7 run, by the log 0-3",
     lambda t: t.edit("runs", 0, "part:0:0-3", "part:0:0-2,7")),
    ("placements_follow_from_log", 5, "placement 12", "tasks 0 leave, by the log 0-1",
     lambda t: t.edit("runs", 1, "!12:halt:0:0-1", "!12:halt:0:0")),
    ("placements_follow_from_log", 5, "placement 1", "not on the machine",
     lambda t: t.edit("runs", 0, " 1:part:0:0-3", "").put("runs", 5, " 1:part:0:0-3")),
    ("placements_follow_from_log", 5, "placement 10", "ended there",
     lambda t: t.put("runs", 5, " 10:done:0:0")),
    ("placements_follow_from_log", 5, "placements", "last id given out is 16",
     lambda t: t.put("meta", "placements", 16)),
    ("indexes", 6, "kinds service", "7 20', by the records '",
     lambda t: t.words("kinds", "service", -2, 7)),
    ("indexes", 6, "kinds service", " 2 2000 20', by the records '",
     lambda t: t.words("kinds", "service", 5, 2)),
    ("constraints_hold", 7, "job part group 0", "machine 1 (m1), which does not satisfy machine == 'm0'",
     lambda t: t.specify("part", {"groups": [{"constraints": ["machine == 'm0'"]}]})),
    ("gangs_commit_whole", 2, "gang part", "left 3 unplaced",
     lambda t: t.job("part", gang=1)),
    ("gangs_commit_whole", 2, "gang low", "evicted some of its tasks and left 2 placed",
     lambda t: t.job("low", gang=2)),
]  # fmt: skip


def spoken(report: Report, invariant: int, where: str, what: str) -> bool:
    return any(v.invariant == invariant and v.where == where and what in v.what for v in report.violations)


@pytest.mark.parametrize(("rule", "invariant", "where", "what", "edit"), RECORDS)
def test_a_broken_record_is_reported(town: Town, rule: str, invariant: int, where: str, what: str, edit: Edit) -> None:
    edit(town)
    report = verify(town.cell)
    assert not report.ok
    assert report.settled
    assert spoken(report, invariant, where, what), report.violations


def test_every_rule_has_a_broken_record() -> None:
    # victims_are_lower needs a trimmed log: test_broken_log.py; the other evictions and copies: tests/contract.
    elsewhere = {"victims_are_lower", "copies_follow_their_originals"}
    rules = {each.__name__ for each in (*OF_MEMORY, *GROUP_RULES, *LOG_RULES_OF_MEMORY)} - elsewhere
    assert {rule for rule, *_ in RECORDS} == {*rules, "indexes"}
