"""Values changed together with all that is stored beside them: the audit finds them by the log or the clock."""

import re
from collections.abc import Callable, Iterator

import pytest

from omega.cellstate.verify import verify
from tests.unit.cellstate.audit.tampered import full
from tests.unit.cellstate.audit.town import Town

IN_2096 = 3_976_300_800_000
LOSS = r"^~([^:]+):(\d+):(\d+):"


@pytest.fixture(scope="module")
def furnished(store_url: str) -> Iterator[Town]:
    with full(store_url) as town:
        yield town


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


@pytest.mark.parametrize(
    ("change", "where", "said"),
    [
        (delayed_for_decades, "job lossy", f"delayed until {IN_2096} ms"),
        (
            lambda t: losses(t, lambda m: f"~{m[1]}:3:{m[3]}:"),
            "job lossy group 0",
            "was lost 3 times, by the log",
        ),
        (
            lambda t: losses(t, lambda m: f"~{m[1]}:1:{m[3]}:"),
            "job lossy group 0",
            "was lost 1 times, by the log from 2 to 2",
        ),
        (total_of_a_tree, "pools t1", r"is '41 - .*', by the records '40 - "),
        (lambda t: t.job("high", links=">*"), "job high", "is awaited, by the log by no job"),
        (lambda t: t.job("done", links="<nobody"), "job done", r"waits for \['nobody'\], which the log"),
        (lambda t: t.put("epoch", "by", "batch/1"), "epoch", r"'batch/1'\), by the log .*'batch/0'"),
        (lambda t: t.put("epoch", "published", 1), "epoch", "1, 'batch/0'"),
        (lambda t: t.put("epoch", "pools", 1), "pools of the epoch", "is 1, by the log 6"),
        (lambda t: t.put("drains", "0", "1"), "machine 0", "is to be emptied and is up"),
        (lambda t: t.put("operator", "0", "7 -\n"), "machine 0", "differs from what operators set of it"),
        (lambda t: t.put("operator", "99", "- -\n"), "machine 99", "has settings of operators and is not in the cell"),
        (lambda t: t.drop("trees", "0"), "trees 0", "is not there, by the records it is '0'"),
        (lambda t: fact(t, "machine 2 tree 0 ", "machine 2 tree 1 "), "machine 2", "its tree is '0', by the log '1'"),
        (lambda t: t.put("trees", "0", "1"), "trees 0", "is '1', by the records '0'"),
    ],
)
def test_a_consistent_change_is_found(furnished: Town, change: Callable[[Town], None], where: str, said: str) -> None:
    before = {key: (furnished.client.pttl(key), furnished.client.dump(key)) for key in keys(furnished)}
    assert verify(furnished.cell).ok
    change(furnished)
    found = [v.what for v in verify(furnished.cell).violations if v.where == where]
    for key in keys(furnished):
        furnished.client.delete(key)
    for key, (ttl, content) in before.items():
        furnished.client.restore(key, max(ttl, 0), content)
    assert any(re.search(said, what) for what in found), found


def keys(town: Town) -> list[bytes]:
    return list(town.client.scan_iter(match=town.prefix.replace("[", "\\[") + "*"))
