"""Records of jobs that are alike, read in columns, give the jobs that are read one by one."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from omega.cellstate.model import Gang, Job, JobSpec, TaskGroup
from omega.cellstate.redis import job_records, records
from omega.cellstate.redis.jobs_alike import LEAST, read_alike
from omega.testing.scenes import for_all

NUMBERS = st.integers(0, 2**63)
Fields = Mapping[str, Any]


def record(number: int, spec: JobSpec, fields: Fields) -> tuple[str, bytes, bytes]:
    """Return the id, record and opaque spec of a job in the cell, some of whose fields are given."""
    raw, extra = job_records.new_job(spec, held=False)
    stored = job_records.decode(raw, len(spec.groups[0].need))
    return spec.id, job_records.encode({**stored, "lane": "7", "submitter": "ann", **fields}), extra


def stored(own: Sequence[Fields], names: Sequence[str], spec: Fields) -> list[tuple[str, bytes, bytes]]:
    """Return jobs with fields of their own."""
    groups = (TaskGroup((1_000, 2_048), 10, 200),)
    return [
        record(i, JobSpec(f"j{i}", name, "batch", groups, 3, Gang.YES, spec), fields)
        for i, (fields, name) in enumerate(zip(own, names, strict=True))
    ]


def both(jobs: Sequence[tuple[str, bytes, bytes]], dimensions: int = 2) -> tuple[list[Job], list[Job]]:
    """Return jobs as read together and as read one by one."""
    return together(jobs, dimensions), [job_records.read_job(*each, dimensions) for each in jobs]


def together(jobs: Sequence[tuple[str, bytes, bytes]], dimensions: int = 2) -> list[Job]:
    """Return jobs as read together."""
    ids, records, specs = zip(*jobs, strict=True)
    return read_alike(ids, records, specs, dimensions)


@settings(for_all, max_examples=50)
@given(st.data())
def test_what_is_read_together_is_what_is_read_one_by_one(data: st.DataObject) -> None:
    fields = st.fixed_dictionaries({"order": NUMBERS, "submitted": NUMBERS, "modified": NUMBERS})
    own = data.draw(st.lists(fields, min_size=LEAST, max_size=8))
    length = data.draw(st.integers(1, 30))
    names = [data.draw(st.text("abz-/9", min_size=length, max_size=length).map(lambda t: f"x{t}")) for _ in own]
    spec: Fields = data.draw(st.sampled_from([{}, {"user": "ann"}, {"update": {"b": [1, None]}}]))
    found, single = both(stored(own, names, spec))
    assert found == single


def test_a_name_that_is_the_id_is_read_as_the_id() -> None:
    jobs = stored([{}] * 5, [f"j{i}" for i in range(5)], {})
    found, single = both(jobs)
    assert found == single
    assert [job.name for job in found] == ["j0", "j1", "j2", "j3", "j4"]


@pytest.mark.parametrize("field", [
    {"precedence": 4}, {"kind": "other"}, {"lane": "8"}, {"begun": True}, {"links": "<j0"}, {"submitter": "bob"},
    {"state": 1}, {"gang": 0}, {"commands": True},
])  # fmt: skip
@pytest.mark.parametrize("at", [0, 3, 5])
def test_jobs_that_differ_in_more_are_left_to_be_read_one_by_one(field: Fields, at: int) -> None:
    own: list[Fields] = [{}] * 6
    assert together(stored([*own[:at], field, *own[at + 1 :]], ["name"] * 6, {})) == []


def test_groups_that_differ_are_not_alike() -> None:
    jobs = stored([{}] * 5, ["name"] * 5, {})
    spec = JobSpec("k", "name", "batch", (TaskGroup((1_000, 2_049), 10, 200),), 3, Gang.YES)
    assert len(together(jobs)) == 5
    assert together([*jobs, record(9, spec, {})]) == []
    assert together([*jobs, (jobs[0][0], jobs[0][1], records.pack({"user": "bob"}))]) == []
    assert together(jobs[: LEAST - 1]) == []


@pytest.mark.parametrize("cut", [0, 1, 20, 60])
def test_damaged_records_are_left_to_be_read_one_by_one(cut: int) -> None:
    jobs = stored([{}] * 5, ["name"] * 5, {})
    assert together([(name, raw[:cut], spec) for name, raw, spec in jobs]) == []
    assert together([(name, raw.replace(b"name", b"\xff\xfe\xfd\xfc"), spec) for name, raw, spec in jobs]) == []
