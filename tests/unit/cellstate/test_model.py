"""The words check themselves when they are said."""

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.executors import check_member
from omega.cellstate.model import (
    BUCKETS,
    MOST_CLAIMS,
    MOST_PRECEDENCE,
    Gang,
    GroupStatus,
    Job,
    JobSpec,
    JobState,
    Machine,
    MachineSpec,
    MachineState,
    TaskGroup,
    bucket_of,
)

ONE = (TaskGroup((1,), 1),)


@pytest.mark.parametrize("name", ["m1", "rack-7/m.1_x", "A" * 128])
def test_names_of_machines(name: str) -> None:
    assert MachineSpec(name, (1,)).name == name


@pytest.mark.parametrize("name", ["", "-m", "a b", "a\nb", "ä", "A" * 129, "/m"])
def test_other_names_of_machines(name: str) -> None:
    with pytest.raises(BadInput, match="machine name"):
        MachineSpec(name, (1,))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"id": "a/b"}, "job id 'a/b'"),
        ({"id": "a" * 65}, "job id"),
        ({"id": ""}, "job id"),
        ({"name": "a b"}, "job name 'a b'"),
        ({"kind": "Batch"}, "job kind 'Batch'"),
        ({"kind": "b" * 33}, "job kind"),
        ({"precedence": -1}, "precedence -1"),
        ({"precedence": MOST_PRECEDENCE + 1}, "precedence"),
        ({"groups": ()}, "at least one task"),
        ({"groups": (TaskGroup((1,), 0),)}, "at least one task"),
        ({"groups": ONE * (MOST_CLAIMS + 1), "gang": Gang.YES}, f"a gang of {MOST_CLAIMS + 1} tasks"),
    ],
)
def test_jobs_that_cannot_be(words: dict[str, object], said: str) -> None:
    fine: dict[str, object] = {"id": "a", "name": "a", "kind": "batch", "groups": ONE}
    with pytest.raises(BadInput, match=said):
        JobSpec(**fine | words)  # type: ignore[arg-type]


def test_a_job_sums_its_groups() -> None:
    spec = JobSpec("a", "x/y", "map-reduce_2", (TaskGroup((1,), 3), TaskGroup((2,), 4)), MOST_PRECEDENCE, Gang.STRICT)
    assert spec.total == 7


@pytest.mark.parametrize("name", ["batch/0", "x/m1.example_7-1"])
def test_names_of_schedulers(name: str) -> None:
    assert check_member(name) == name


@pytest.mark.parametrize("name", ["batch", "Batch/0", "batch/", "batch/a b", "a/b/c", "batch/" + "0" * 65])
def test_other_names_of_schedulers(name: str) -> None:
    with pytest.raises(BadInput, match="kind/instance"):
        check_member(name)


def test_buckets_are_even_and_lasting() -> None:
    found = [bucket_of(f"job-{i}") for i in range(20_000)]
    assert set(found) == set(range(BUCKETS))
    assert max(found.count(bucket) for bucket in range(BUCKETS)) < 2 * len(found) / BUCKETS
    assert bucket_of("job-1") == 31, "stored in every cell: it must never change"


def test_a_machine_is_over_in_any_dimension() -> None:
    def machine(*allocated: int) -> Machine:
        return Machine(0, "m", 1, MachineState.UP, 1, (2, 2), allocated, {})

    assert [machine(*amounts).over for amounts in ((2, 2), (3, 0), (0, 3))] == [False, True, True]


@pytest.mark.parametrize(
    ("state", "unplaced", "pending"),
    [
        (JobState.ACTIVE, 1, True),
        (JobState.HELD, 1, True),
        (JobState.ACTIVE, 0, False),
        (JobState.STOPPED, 1, False),
        (JobState.ABANDONED, 1, False),
        (JobState.DONE, 0, False),
    ],
)
def test_pending(state: JobState, unplaced: int, pending: bool) -> None:
    group = GroupStatus(need=(1,), total=1, unplaced=unplaced, waiting="-")
    assert Job(id="a", name="a", kind="batch", order=1, state=state, groups=[group]).pending is pending
