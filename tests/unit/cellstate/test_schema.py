"""The table of a record's fields, and the codecs that are made of it."""

from contextlib import suppress
from typing import Any

import fakeredis
import pytest
from hypothesis import given, settings, strategies as st

from omega.cellstate import schema
from omega.cellstate.model import BUDGET, RUNS_CHUNK, JobSpec, JobState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.job_records import Fields, decode, encode, new_job, read_head, read_job, read_order
from omega.cellstate.redis.records import UNREADABLE
from omega.cellstate.resources import Dimensions
from omega.cellstate.schema import CHANGING, FIXED, GROUP, Field

_MOST = {"1": 255, "2": 65_535, "4": 2**32 - 1, "8": 2**53, "a": 10**14, "c": 2**32 - 1}
_TEXT = st.text("ab<>*!@,-0123456789", max_size=40)


def _value(field: Field) -> st.SearchStrategy[Any]:
    if field.form == "?":
        return st.booleans()
    if schema.is_text(field):
        return _TEXT
    return st.one_of(st.integers(0, min(300, _MOST[field.form])), st.integers(0, _MOST[field.form]))


@st.composite
def records(draw: st.DrawFn) -> Fields:
    groups = []
    for _ in range(draw(st.integers(1, 3))):
        group = {field.name: draw(_value(field)) for field in GROUP}
        counts = [field.name for field in GROUP if field.form == "c"]
        group["indices"] = max(group[name] for name in counts)
        group["optional"] %= 3
        group["need"] = tuple(draw(st.lists(_value(GROUP[0]), min_size=2, max_size=2)))
        groups.append(group)
    fields = {field.name: draw(_value(field)) for field in (*CHANGING, *FIXED)}
    return {**fields, "size": len(groups), "groups": groups}


@given(records())
def test_a_record_is_read_as_it_was_written(fields: Fields) -> None:
    record = encode(fields)
    assert decode(record, 2) == fields
    assert read_order(record) == fields["order"]
    for cut in (record[:-1], record + b"x", record[: len(record) // 2], b""):
        with pytest.raises(UNREADABLE):
            decode(cut, 2)


@given(records(), st.binary(max_size=8), st.integers(0, 400))
def test_a_job_is_what_its_decoded_record_says(fields: Fields, damage: bytes, at: int) -> None:
    fields |= {"state": fields["state"] % len(JobState), "gang": fields["gang"] % 3, "links": "<*", "lane": 7}
    for group in fields["groups"]:
        group |= {"runs": "1@2,", "rest": ""}
    record = encode(fields)
    for apart in (None, {0: "3@4,"}):
        job = read_job("a", record, b"", 2, apart)
        assert job == read_job("a", record, b"", 2, apart)
        said = {field.name: fields[field.name] for field in FIXED if field.name not in ("bucket", "lane")}
        said["name"] = said["name"] or "a"
        assert said == {name: getattr(job, {"submitted": "submitted_ms"}.get(name, name)) for name in said}
        assert (job.state, job.modified, job.begun, job.commands, job.lane, job.held) == (
            fields["state"], fields["modified"], fields["begun"], fields["commands"], 7, True,
        )  # fmt: skip
        for number, (group, read) in enumerate(zip(fields["groups"], job.groups, strict=True)):
            assert (read.need, read.waiting, read.placed) == (group["need"], group["waiting"], group["placed"])
            chunk = number == 0 and group["indices"] > RUNS_CHUNK
            assert read.runs == (() if apart is None else ((1, 2, False), (3, 4, False)) if chunk else ((1, 2, False),))
    for cut in (record[:-1], record + b"x", record[: len(record) // 2], b""):
        with pytest.raises(UNREADABLE):
            read_job("a", cut, b"", 2)
    damaged = record[:at] + damage + record[at + len(damage) :]
    with suppress(*UNREADABLE):
        assert read_job("a", damaged, b"", 2).name == (decode(damaged, 2)["name"] or "a")


@settings(max_examples=30)
@given(records())
def test_scripts_read_and_write_the_same_bytes(fields: Fields) -> None:
    """Hold changes state, links and modify index; the rest is written as it was read."""
    fields |= {"state": 0, "links": "", "leaving": False, "lane": 1, "gang": fields["gang"] % 3}
    fields["name"] *= fields["name"] != "a"  # the id
    for group in fields["groups"]:
        group |= {"runs": "", "rest": "", "waiting": group["waiting"] or "-"}
    fields["groups"][0]["placed"] = 1  # it has not ended
    client = fakeredis.FakeRedis()
    cell = RedisCell.create(client, "c")
    client.hset("omega:1:{c}:jobs", "a", encode(fields))
    client.hset("omega:1:{c}:kinds", "batch", "- - - - - 1 0 0")
    cell.jobs.hold("a", 1, "ada")
    record: Any = client.hget("omega:1:{c}:jobs", "a")
    found = decode(record, 2)
    assert found == fields | {"state": 1, "links": "<*", "modified": 1}


def test_fields_of_a_section_have_names_of_their_own() -> None:
    for section in (CHANGING, FIXED, GROUP):
        assert len({field.name for field in section}) == len(section)


@given(records(), st.integers(2, 4))
def test_resources_that_a_cell_got_later_are_needed_by_no_earlier_job(fields: Fields, dimensions: int) -> None:
    fields |= {"state": 0, "gang": fields["gang"] % 3, "links": ""}
    for group in fields["groups"]:
        group |= {"rest": ""}
    record, more = encode(fields), (0,) * (dimensions - 2)
    needs = [group["need"] + more for group in fields["groups"]]
    assert [group["need"] for group in decode(record, dimensions)["groups"]] == needs
    assert [group.need for group in read_job("a", record, b"", dimensions).groups] == needs
    with pytest.raises(UNREADABLE):
        decode(record, 1)


def test_scripts_add_resources_to_a_record_that_was_written_with_fewer() -> None:
    client = fakeredis.FakeRedis()
    cell = RedisCell.create(client, "c", Dimensions(("cpu", "memory", "gpu")))
    groups = tuple(TaskGroup((5 + i, 7), 3, 9, {}) for i in range(2))
    record, _ = new_job(JobSpec("a", "a", "batch", groups), 1, "ada", held=False)
    client.hset("omega:1:{c}:jobs", "a", record)
    cell.jobs.hold("a", 1, "ada")
    written: Any = client.hget("omega:1:{c}:jobs", "a")
    assert written[0] == 3
    assert [group["need"] for group in decode(written, 3)["groups"]] == [(5, 7, 0), (6, 7, 0)]


def test_a_new_job_is_read_as_submitted() -> None:
    spec = JobSpec("a", "name", "batch", (TaskGroup((5, 7), 3, 9, {"grace": 1}),), precedence=4)
    record, whole = new_job(spec, 8, "ada", held=True)
    job = read_job("a", encode(decode(record, 2) | {"lane": 1}), whole, 2)
    assert (job.name, job.kind, job.precedence, job.held) == ("name", "batch", 4, True)
    assert job.spec == {"groups": [{"grace": 1}]}
    (group,) = job.groups
    assert (group.need, group.total, group.unplaced, group.waiting, group.budget) == ((5, 7), 3, 3, "0-2", BUDGET)
    assert read_head("a", record, 2).wanted == (15, 21)
