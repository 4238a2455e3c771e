"""Changes of a stored cell that once went unnoticed, some with all that is stored beside them.

The audit finds each, or the page lists it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgpack
import pytest

from omega.cellstate.errors import Fenced
from omega.cellstate.schema import NEVER
from omega.cellstate.transaction import Claim
from omega.cellstate.verify import verify
from tests.unit.cellstate.audit.tampered import full, page_rows
from tests.unit.cellstate.audit.town import LEASE_MS, SMALL, Town, job

IN_2096 = 3_976_300_800_000
Change = Callable[[Town], object]
LOSS = r"^~([^:]+):(\d+):(\d+):"


@dataclass(frozen=True)
class Found:
    """What the audit says of a change, and where."""

    where: str
    said: str


@dataclass(frozen=True)
class Listed:
    """The row of the page about a change that the audit cannot find."""

    key: str
    change: str


SETTINGS = Listed("`meta`", "`keep_jobs`, `keep_ms`, `durability`, names of `resources`")
COUNTERS = Listed("`meta`", "`arrivals`, `lanes` or `transactions` that is too large; `ticks`")
MESSAGES = Listed(
    "`box`", "messages removed or in another order; those of placements that ended; whether tasks wait for leaving ones"
)
OWN = Listed("`schedulers` `agents`", "nonce, number of the last call, length of the lease")


def item(town: Town, key: str, old: bytes, new: bytes) -> None:
    """Replace a piece of the first item of a list that has it."""
    items = town.client.lrange(town.prefix + key, 0, -1)
    at = next(at for at, each in enumerate(items) if old in each)
    town.client.lset(town.prefix + key, at, items[at].replace(old, new, 1))


def answer(member: str, outcomes: str) -> Change:
    def change(town: Town) -> None:
        head, _, now = town.text("schedulers", member).partition("\n")
        assert now != outcomes
        town.put("schedulers", member, f"{head}\n{outcomes}")

    return change


def attribute(name: str, value: str, machine: str) -> Change:
    def change(town: Town) -> None:
        index = town.text("names", machine)
        head, _, packed = town.client.hget(town.prefix + "static", index).partition(b"\n")
        given = (msgpack.unpackb(packed) if packed else {}) | {name: value}
        town.client.hset(town.prefix + "static", index, head + b"\n" + msgpack.packb(given))

    return change


def rest(job_id: str, old: str, new: str) -> Change:
    return lambda town: town.shorten_loss(job_id, 0, old, new)


def due(job_id: str, at_ms: int) -> Change:
    return lambda town: town.client.zadd(town.prefix + "housekeeping", {job_id: at_ms})


def count(name: str, more: int) -> Change:
    return lambda town: town.client.hincrby(town.prefix + "meta", name, more)


def drop(key: str) -> Change:
    return lambda town: town.client.delete(town.prefix + key)


def losses(town: Town, change: Callable[[re.Match[str]], str]) -> None:
    rest = town.fields("lossy")["groups"][0]["rest"]
    now, edits = re.subn(LOSS, change, rest)
    assert edits == 1, rest
    town.group("lossy", 0, rest=now)


def delayed_for_decades(town: Town) -> None:
    losses(town, lambda m: f"~{m[1]}:{m[2]}:{IN_2096}:")
    town.client.zadd(town.prefix + "housekeeping", {"lossy": IN_2096})


def total_of_a_tree(town: Town) -> None:
    words = town.text("pools", "t1").split()
    assert words[0] == "40"
    town.put("pools", "t1", " ".join(["41", *words[1:]]))


def fact(town: Town, before: str, after: str) -> None:
    """Replace a part of one fact of the log."""
    key = town.prefix + "log"
    entries = town.client.xrange(key)
    assert sum(before in fields[b"facts"].decode() for _, fields in entries) == 1
    town.client.delete(key)
    for name, fields in entries:
        text = fields[b"facts"].decode().replace(before, after)
        town.client.xadd(key, {**fields, b"facts": text}, id=name)


CASES: dict[str, tuple[Change, Found | Listed]] = {
    "a gang that is none":
        (lambda t: t.job("gang", gang=0), Found("job gang", r"its gang is \(0, 0\), by the log \(1, 0\)")),
    "a strict gang that is another": (lambda t: t.job("strict", gang=1), Found("job strict", r"its gang is \(1, 0\)")),
    "a gang with a minimum": (lambda t: t.job("gang", gang_min=2), Found("job gang", r"its gang is \(1, 2\)")),
    "an ordinary group that is optional":
        (lambda t: t.group("part", optional=1), Found("job part", r"are .*1\),\), by the log \(\(0, 10, 0\),\)")),
    "an optional group that is none":
        (lambda t: t.group("lossy", 2, optional=0), Found("job lossy", "its groups are")),
    "no budget": (lambda t: t.group("part", budget=0), Found("job part", r"its groups are \(\(0, 0, 0\),\)")),
    "at most once": (lambda t: t.group("part", budget=NEVER), Found("job part", "its groups are")),
    "a longer duration":
        (lambda t: t.group("words", duration=9), Found("job words", r"its groups are .*9, .*log \(\(5, 10, 0\)")),
    "the duration of a group of an update":
        (lambda t: t.group("words", 1, duration=9), Found("job words", r"its groups are .*9, .*\(5, 10, 0\)\)$")),
    "more indices":
        (lambda t: t.group("part", indices=15), Found("job part", "its indices are 15, by the log 10")),
    "more indices of a resized job":
        (lambda t: t.group("next", indices=15), Found("job next", "its indices are 15")),
    "more failures of a retried task":
        (rest("served", ":30:1:3", ":30:5:3"), Found("job served group 0", "was retried 5 times")),
    "more losses of a task": (rest("lossy", "~0:2:", "~0:5:"), Found("job lossy group 0", "was lost 5 times")),
    "an attribute more on a machine without any":
        (attribute("zone", "z", "m0"), Found("machine 0", r"its attributes are {'zone': 'z'}, by the log {}")),
    "an attribute more on a machine with some": (attribute("gpu", "1", "h1"), Found("machine 8", "its attributes are")),
    "another value of an attribute":
        (attribute("zone", "core", "far"), Found("machine 9", "its attributes are {'zone': 'core'}.*'edge'")),
    "a ready task that is granted its end for ever":
        (lambda t: t.edit("health", "served", ":0:0", f":0:{IN_2096}"), Found("health served", f"until {IN_2096} ms")),
    "health of another placement":
        (lambda t: t.edit("health", "served", "3:30:", "3:29:"), Found("health served", "which is not there")),
    "a ready task that is removed":
        (drop("health"), Listed("`health`", "removed; another task or state of the same placement")),
    "a stopped job whose tasks run for ever":
        (due("halting", IN_2096), Found("housekeeping halting", f"is {IN_2096}, by the records 0")),
    "lost tasks that wait for ever":
        (due("lossy", IN_2096), Found("housekeeping lossy", f"is {IN_2096}, by the records ")),
    "a job without work for housekeeping":
        (due("part", IN_2096), Found("housekeeping part", f"is {IN_2096}, and no record gives it")),
    "a higher number of the last call":
        (lambda t: t.edit("schedulers", "batch/0", "nonce-batch ", "nonce-batch 9"), OWN),
    "another nonce": (lambda t: t.edit("schedulers", "batch/0", "nonce-batch", "nonce-other"), OWN),
    "an answer that all was placed": (answer("service/0", "+"), Found("schedulers service/0", "has other refusals")),
    "an answer that nothing was placed": (answer("batch/0", "0 8"), Found("schedulers batch/0", "has other refusals")),
    "an answer without refusals": (answer("batch/0", "9 0"), Found("schedulers batch/0", "has 9 tasks placed")),
    "an answer to more transactions":
        (answer("batch/0", "+;+"), Found("schedulers batch/0", "another number of trans")),
    "an answer with another verdict": (answer("service/0", "0 9"), Found("schedulers service/0", "other refusals")),
    "an answer of another call":
        (lambda t: t.put("schedulers", "batch/0", "1 nonce-batch 27 abcdefghij\n+"),
         Found("schedulers batch/0", "its last call is that of tag 'abcdefghij'")),
    "a lease that is removed": (drop("lease:batch/0"), Listed("`lease`", "removed")),
    "messages that are removed": (drop("box:1"), MESSAGES),
    "a message with another task":
        (lambda t: item(t, "box:1", b"+ part 0 0 0 1 0 0-3", b"+ part 0 0 0 1 0 0-4"),
         Found("box:1", "about placement 1 of tasks 0-4, by the log 0-3")),
    "a message with another duration":
        (lambda t: item(t, "box:1", b"+ part 0 0 0", b"+ part 0 7 0"), Found("box:1", "that take 7 ms")),
    "a message with another job":
        (lambda t: item(t, "box:1", b"+ part 0 0 0", b"+ many 0 0 0"), Found("box:1", "that no placement has")),
    "a message twice":
        (lambda t: t.client.rpush(t.prefix + "box:1", t.client.lindex(t.prefix + "box:1", 0)),
         Found("box:1", "has 2 messages that start placement 1")),
    "one ended job that is kept": (lambda t: t.put("meta", "keep_jobs", 1), SETTINGS),
    "ended jobs that are kept for a moment": (lambda t: t.put("meta", "keep_ms", 1), SETTINGS),
    "no durability": (lambda t: t.drop("meta", "durability"), SETTINGS),
    "more transactions": (count("transactions", 5), COUNTERS),
    "more arrivals": (count("arrivals", 5), COUNTERS),
    "an update of a job that is not there":
        (lambda t: t.put("updates", "ghost", "rolling"), Found("job ghost", "is updated, by the log no job")),
    "confirmations that are removed":
        (drop("confirmed"), Listed("`directories` `confirmed` `settling` `unsettled`", "any")),
    "a report of lost versions without its number":
        (lambda t: t.put("cuts", "last", ""), Found("cuts last", "invalid literal")),
    "lost tasks that are delayed for decades":
        (delayed_for_decades, Found("job lossy", f"delayed until {IN_2096} ms")),
    "more losses of a delayed task":
        (lambda t: losses(t, lambda m: f"~{m[1]}:3:{m[3]}:"),
         Found("job lossy group 0", "was lost 3 times, by the log")),
    "fewer losses of a delayed task":
        (lambda t: losses(t, lambda m: f"~{m[1]}:1:{m[3]}:"),
         Found("job lossy group 0", "was lost 1 times, by the log from 2 to 2")),
    "another total of a tree": (total_of_a_tree, Found("pools t1", r"is '41 - .*', by the records '40 - ")),
    "a job that no other waits for":
        (lambda t: t.job("high", links=">*"), Found("job high", "is awaited, by the log by no job")),
    "a job that waits for nobody":
        (lambda t: t.job("done", links="<nobody"), Found("job done", r"waits for \['nobody'\], which the log")),
    "another author of the epoch":
        (lambda t: t.put("epoch", "by", "batch/1"), Found("epoch", r"'batch/1'\), by the log .*'batch/0'")),
    "another version of the epoch": (lambda t: t.put("epoch", "published", 1), Found("epoch", "1, 'batch/0'")),
    "other pools of the epoch":
        (lambda t: t.put("epoch", "pools", 1), Found("pools of the epoch", "is 1, by the log 6")),
    "a deadline of a machine that is up":
        (lambda t: t.put("drains", "0", "1"), Found("machine 0", "is to be emptied and is up")),
    "other settings of a machine":
        (lambda t: t.put("operator", "0", "7 -\n"), Found("machine 0", "differs from what operators set of it")),
    "settings of no machine":
        (lambda t: t.put("operator", "99", "- -\n"),
         Found("machine 99", "has settings of operators and is not in the cell")),
    "a machine without its tree":
        (lambda t: t.drop("trees", "0"), Found("trees 0", "is not there, by the records it is '0'")),
    "a fact of another tree":
        (lambda t: fact(t, "machine 2 tree 0 ", "machine 2 tree 1 "),
         Found("machine 2", "its tree is '0', by the log '1'")),
    "a machine in another tree": (lambda t: t.put("trees", "0", "1"), Found("trees 0", "is '1', by the records '0'")),
}  # a table # fmt: skip


@pytest.fixture(scope="module")
def furnished(store_url: str) -> Iterator[Town]:
    with full(store_url) as town:
        assert verify(town.cell).ok
        # Nobody saw the cell before it was changed: lost versions are not reported, which would write to it.
        town.cell.look_back = lambda: None  # type: ignore[method-assign]
        yield town


@pytest.fixture
def town(furnished: Town) -> Iterator[Town]:
    """The cell, which is afterwards as it was."""
    before = {key: (furnished.client.pttl(key), furnished.client.dump(key)) for key in keys(furnished)}
    yield furnished
    for key in keys(furnished):
        furnished.client.delete(key)
    for key, (ttl, content) in before.items():
        furnished.client.restore(key, max(ttl, 0), content)


def keys(town: Town) -> list[bytes]:
    return list(town.client.scan_iter(match=town.prefix.replace("[", "\\[") + "*"))


@pytest.mark.parametrize("name", CASES)
def test_a_single_change_is_found_or_listed(town: Town, name: str) -> None:
    change, expected = CASES[name]
    change(town)
    report = verify(town.cell)
    if isinstance(expected, Listed):
        assert report.ok, "found by now: take it off the page"
        assert (expected.key, expected.change) in page_rows()
    else:
        found = [each.what for each in report.violations if each.where == expected.where]
        assert any(re.search(expected.said, what) for what in found), report.violations


WITHOUT_LOG: dict[str, tuple[Change, Listed]] = {
    "a gang that is none":
        (CASES["a gang that is none"][0],
         Listed("`jobs`", "gang, duration, budget, optional or indices of a job whose submission is not in the log")),
    "an attribute more on a machine with some":
        (CASES["an attribute more on a machine with some"][0],
         Listed("`static`", "attributes of a machine whose last change is not in the log")),
    "an update of a job that is not there":
        (CASES["an update of a job that is not there"][0],
         Listed("`updates`", "an update of a job that is not kept and whose submission is not in the log")),
}  # a table # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_LOG)
def test_without_its_fact_a_change_is_listed(town: Town, name: str) -> None:
    change, expected = WITHOUT_LOG[name]
    newest = int(town.client.xrevrange(town.prefix + "log", count=1)[0][0].partition(b"-")[0])
    town.client.xtrim(town.prefix + "log", minid=f"{newest - 1}-0")
    assert verify(town.cell).ok
    change(town)
    assert verify(town.cell).ok
    assert (expected.key, expected.change) in page_rows()


def test_a_scheduler_whose_last_number_was_raised_registers_again_and_commits(town: Town) -> None:
    """The store refuses its calls as older ones; with a new incarnation the numbers begin anew."""
    cell, member = town.cell, town.members["batch"]
    cell.jobs.submit([job("later-on", SMALL)], 30, "ada")
    town.edit("schedulers", "batch/0", "nonce-batch ", "nonce-batch 9")
    with pytest.raises(Fenced):
        town.commit("later-on", Claim(3, 0, 1))
    cell.schedulers.deregister(member, 31)
    town.members["batch"] = cell.schedulers.register("batch/0", "nonce-again", LEASE_MS, 31)
    assert town.commit("later-on", Claim(3, 0, 1)) == 1
    town.members["batch"] = member
    assert verify(cell).ok
