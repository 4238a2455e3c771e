"""Records of jobs that are alike, read in columns, give the jobs that are read one by one."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from omega.cellstate.model import Gang, Job, JobSpec, TaskGroup
from omega.cellstate.redis import job_records, jobs as jobs_module, records
from omega.cellstate.redis.jobs import LEAST, read_alike, read_runs
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


def lanes(*sizes: int) -> list[tuple[str, bytes, bytes]]:
    """Return jobs of several lanes, one after the other, of a pool each."""
    return [
        job
        for lane, size in enumerate(sizes)
        for job in stored([{"lane": str(lane)}] * size, [f"job-{i}" for i in range(size)], {"pool": f"p{lane}"})
    ]


def by_lanes(jobs: Sequence[tuple[str, bytes, bytes]]) -> list[Job]:
    """Return jobs of several lanes as read together."""
    ids, records, specs = zip(*jobs, strict=True)
    return read_runs(ids, records, specs, 2)


def test_jobs_of_several_lanes_are_read_together_lane_by_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = lanes(5, 1, 8, 3, LEAST)
    single = [job_records.read_job(*each, 2) for each in jobs]
    read, calls = job_records.read_job, list[str]()

    def counted(job_id: str, record: bytes, spec: bytes, dimensions: int) -> Job:
        calls.append(job_id)
        return read(job_id, record, spec, dimensions)

    monkeypatch.setattr(jobs_module, "read_job", counted)
    assert by_lanes(jobs) == single
    assert len(calls) == 1 + 1 + 1 + 3 + 1, "one for each lane of jobs alike, one for each job of the short lanes"


@pytest.mark.parametrize("at", [0, 5, 6])
def test_a_damaged_job_of_one_lane_leaves_all_to_be_read_one_by_one(at: int) -> None:
    jobs = lanes(5, 1, 8)
    jobs[at] = jobs[at][0], jobs[at][1][:20], jobs[at][2]
    assert by_lanes(jobs) == []
