"""Whatever the log and the record of a job keep is said in words and as JSON, never a traceback."""

import json
from itertools import groupby

from hypothesis import given, strategies as st

from omega.cellstate.digest.history import History
from omega.cellstate.events import FORMS, Fact, job_of, parse
from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import Job, JobSpec, MachineSpec, TaskGroup
from omega.cli.job.progress_text import ProgressText
from omega.cli.job.status import show_past
from omega.queries.event_list import listed_json
from omega.queries.event_text import lines
from omega.queries.events import event
from omega.queries.job_history import Past, _facts, _summed, past
from omega.queries.names import Names
from omega.schedulers.constraints.reasons import Reason

TASKS = "7 0 a {group} {task}"
TEXTS = {
    "submit": "a crawl batch 0 6",
    "place": f"{TASKS} 1,2",
    **dict.fromkeys(("finished", "failed", "retried", "evicted", "stopped"), f"{TASKS} 1 0,0 exit 3"),
    "left": f"{TASKS} exit 3",
    "lost": f"{TASKS} 1 0,0 agent left",
    "conflict": "a 0 7 1 {group} 5",
    "drop": "a {group} 1 evicted",
    "fail": "a {group} {task} lost",
    **dict.fromkeys(("requeue", "speculate", "unneeded"), "a {group} {task}"),
    **dict.fromkeys(("late", "promote"), "7 0 a {group} {task} finished"),
    **dict.fromkeys(("hold", "pass", "update", "updated"), "a"),
    **dict.fromkeys(("release", "awaited", "met"), "a b"),
    **dict.fromkeys(("gate", "stalled"), "a 3 tasks of 5 failed"),
    "resize": "a {group} 4 2 0",
    **dict.fromkeys(("stop", "abandon"), "a 2"),
    "done": "a 3",
}
"""Words of the facts of jobs after the first, as the store writes them."""
WORDS = st.sampled_from(
    ["", "-", "+", "a", "0", "1", "2", "-1", "x", "1,2", "0-2", "state", "=a;1,1;2,2;-,1", "9" * 300]
)


def cell_with_job(groups: int) -> tuple[MemoryCell, Job]:
    cell = MemoryCell()
    cell.executors.register("here", "n", 600_000, 0)
    cell.machines.join("here", [MachineSpec("m0", (4000, 4096))], 0)
    cell.jobs.submit([JobSpec("a", "crawl", "batch", (TaskGroup((1000, 256), 1),) * groups)], 0, "ada")
    job = cell.jobs.get("a")
    assert job is not None
    return cell, job


def said_everywhere(cell: MemoryCell, found: Past) -> str:
    show_past(cell, found, 1_000)
    json.dumps(found.as_json())
    json.dumps(listed_json(cell, found.events))
    text = "\n".join(lines(found.events, Names(cell)))
    progress = ProgressText(found.job)
    for each in found.events:
        if "events" not in each.more:  # `--follow` reads the log alone
            progress.add_event(each)
    progress.update(found.job, 0)
    progress.pending(Reason.WAITING, 0)
    return text


def of_record(cell: MemoryCell, job: Job, record: History) -> Past:
    found = Past(job=job, record=History.unpack(record.pack()))
    for fact, winner in _facts(found.record, job):
        found.events.append(_summed(fact, job.id) or event(fact, cell.dimensions))
        if winner is not None:
            found.winners[found.events[-1].version, found.events[-1].machine] = winner
    return found


KEPT = st.lists(
    st.tuples(st.sampled_from(sorted(TEXTS)), st.integers(1, 3), st.integers(0, 2), st.integers(0, 5)), max_size=40
)


@given(KEPT, st.sampled_from(["", "x" * 400]), st.integers(0, 60))
def test_a_record_of_any_events_is_said(facts: list[tuple[str, int, int, int]], reason: str, forgotten: int) -> None:
    """Of many alike in a version a record has the number alone, and the first of them may be forgotten."""
    cell, job = cell_with_job(3)
    record = History.of(job)
    for word, version, group, task in sorted(facts, key=lambda each: each[1]):
        text = TEXTS[word].format(group=group, task=task)
        words = (word, text, *([reason] if reason and word in ("failed", "stalled") else []))
        (said,) = parse(" ".join(words))
        assert job_of(said) == "a"
        record.add(Fact(version, 5, "batch/0", said))
    del record.events[:forgotten]
    found = of_record(cell, job, record)
    text = said_everywhere(cell, found)
    assert len(text.splitlines()) == len([*groupby(found.events, lambda each: each.version)]), "a line a version"


@given(st.lists(st.tuples(st.sampled_from([*FORMS, "+", "newer", *TEXTS]), st.lists(WORDS, max_size=9)), max_size=9))
def test_a_fact_of_any_words_is_said(facts: list[tuple[str, list[str]]]) -> None:
    cell, job = cell_with_job(2)
    for word, words in facts:
        fact = Fact(1, 5, "batch/0", parse(" ".join((word, *words)))[0])
        found = Past(job=job, record=History.of(job), events=[_summed(fact, job.id) or event(fact, cell.dimensions)])
        said_everywhere(cell, found)


def test_an_unknown_kind_and_its_words_are_shown() -> None:
    cell, job = cell_with_job(1)
    found = [event(Fact(1, 5, "ada", parse(line)[0]), cell.dimensions) for line in ("newer a why", "resize a")]
    text = "\n".join(lines(found, Names(cell)))
    assert "newer a why" in text
    assert "unreadable resize a" in text
    assert past(cell, job).events


def test_a_version_of_many_resizes_names_three_and_counts_the_others() -> None:
    cell, job = cell_with_job(5)
    record = History.of(job)
    for group in range(5):
        record.add(Fact(9, 5, "ada", parse(f"resize a {group} 4 2 0")[0]))
    text = said_everywhere(cell, of_record(cell, job, record))
    assert "resized crawl (a): group 0 to 4 tasks, group 1 to 4 tasks, group 2 to 4 tasks, 2 further groups" in text


def test_a_record_that_begins_with_a_number_of_conflicts_is_said() -> None:
    cell, job = cell_with_job(1)
    record = History.of(job)
    for _ in range(6):
        record.add(Fact(9, 5, "batch/0", parse("conflict a 0 8 1 0")[0]))
    del record.events[:3]
    text = said_everywhere(cell, of_record(cell, job, record))
    assert "3 events of kind conflict of crawl (a), 3 tasks" in text
