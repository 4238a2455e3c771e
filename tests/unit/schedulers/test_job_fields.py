"""Fields of jobs that policies declare: types, checks, and how policies read them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

import pytest

import omega
from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec, TaskGroup
from omega.schedulers.job_fields import JobField, declared, merged, read_values, with_values, written
from omega.schedulers.presets import batch

DEADLINE = JobField("deadline", "duration", "until it should have ended", default="1h", least="1s", most="30d")
EVERY = (
    DEADLINE,
    JobField("rate", "number", "requests", unit="1/s", default=2, least=0),
    JobField("cache", "size", "size of its cache"),
    JobField("label", "text", "label"),
    JobField("urgent", "bool", "whether it is urgent", default=False),
    JobField("tier", "choice", "tier", choices=("gold", "base"), default="base"),
)


BY_NAME = {each.name: each for each in EVERY}


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("deadline", "1h30m", 5400.0),
        ("deadline", "1s250ms", 1.25),
        ("deadline", 90, 90.0),
        ("rate", 0.5, 0.5),
        ("rate", 7, 7),
        ("cache", "64Ki", 65536),
        ("cache", 5, 5),
        ("label", "x y", "x y"),
        ("label", "7", "7"),
        ("urgent", True, True),
        ("tier", "gold", "gold"),
    ],
)
def test_a_value_is_read_by_its_type_and_a_read_value_is_read_as_itself(name: str, value: Any, read: Any) -> None:
    own = BY_NAME[name]
    assert own.read(value) == read
    assert own.read(own.read(value)) == read
    assert own.read(own.from_text(written(own.type, read))) == read  # as an option of a command


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("deadline", ["250ms", "31d", True, "soon", None, [1]]),
        ("rate", [-1, "7", True, float("nan"), float("inf"), None]),
        ("cache", ["5", -5, 1.5, True, "5 apples"]),
        ("label", [5, None, "a\u202eb", ["x"]]),
        ("urgent", ["yes", 1, None]),
        ("tier", ["silver", ["gold"], None]),
    ],
)
def test_a_value_of_another_type_or_beyond_the_bounds_is_refused(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(BadInput):
            BY_NAME[name].read(value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Deadline"},
        {"name": "x" * 33},
        {"type": "date"},
        {"type": "choice"},
        {"choices": ("a",)},
        {"default": "soon"},
        {"default": "1s", "least": "2s"},
        {"default": 1, "required": True},
        {"type": "text", "least": 3},
        {"help": "two\nlines"},
    ],
)
def test_a_declaration_that_makes_no_sense_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"^job field "):
        JobField(**{"name": "deadline", "type": "duration", "help": "x", **wrong})


@pytest.mark.parametrize("own", EVERY)
def test_a_published_declaration_is_the_same_for_its_reader(own: JobField) -> None:
    assert JobField.from_json(own.as_json()) == own


def test_a_declaration_of_another_version_is_an_error() -> None:
    with pytest.raises(BadInput, match="published by another Omega"):
        JobField.from_json({**DEADLINE.as_json(), "colour": "red"})
    with pytest.raises(BadInput, match="type 'date' is unknown"):
        JobField.from_json({**DEADLINE.as_json(), "type": "date"})


def job(**policy: Any) -> JobSpec:
    return JobSpec("j", "j", "edf", (TaskGroup((1, 1), 1),), spec={"user": "ada", "policy": policy})


def test_a_job_is_checked_against_the_fields_of_its_kind() -> None:
    must = JobField("owner", "text", "who pays", required=True)
    assert with_values(job(deadline="30m", owner="ada"), (DEADLINE, must)).spec == {
        "user": "ada", "policy": {"deadline": 1800.0, "owner": "ada"},
    }  # fmt: skip
    for policy, message in (
        (
            {"dedline": "30m"},
            r"policy.dedline: unknown field; did you mean deadline\? fields of kind edf: deadline \(d",
        ),
        ({"deadline": "soon", "owner": "x"}, "policy.deadline: 'soon' is not a duration"),
        ({"deadline": "0s", "owner": "x"}, "policy.deadline: '0s' is not allowed; want at least 1s and at most 30d"),
        ({"deadline": "30m"}, "policy.owner: is missing; every job of kind edf sets it: who pays"),
    ):
        with pytest.raises(BadInput, match="^job j: " + message):
            with_values(job(**policy), (DEADLINE, must))
    with pytest.raises(BadInput, match="fields of kind edf: none"):
        with_values(job(deadline="30m"), ())
    with pytest.raises(BadInput, match="not a mapping"):
        read_values((), ["deadline"], "edf")


def test_of_a_kind_that_nobody_knows_only_jobs_without_fields_pass() -> None:
    with pytest.raises(BadInput, match=r"^job j: policy: the fields of kind edf are unknown: start a scheduler of it"):
        with_values(job(deadline="30m"), None)
    plain = JobSpec("j", "j", "edf", (TaskGroup((1, 1), 1),))
    assert with_values(plain, None) is plain


def test_a_policy_reads_the_value_of_a_job_or_the_default() -> None:
    def read(spec: dict[str, Any]) -> Any:
        return DEADLINE.of(omega.testing.work(((1, 1), 1), spec=spec))

    assert read({"policy": {"deadline": 1800.0}}) == 1800.0
    assert read({"policy": {"other": 1}}) == 3600.0
    assert read({}) == 3600.0
    assert read({"policy": {"deadline": ["of", "an", "older", "declaration"]}}) == 3600.0


@dataclass
class Wrapping(omega.Placement):
    job_fields: ClassVar[tuple[JobField, ...]] = (EVERY[1],)
    inner: omega.Placement = field(default_factory=omega.FirstFit)

    def place(self, work: omega.Work, snapshot: omega.Snapshot, rng: Random) -> Sequence[omega.Claim]:
        return self.inner.place(work, snapshot, rng)


@dataclass
class Deadlines(omega.Ordering):
    job_fields = (DEADLINE,)


def test_a_scheduler_has_the_fields_of_its_policies_and_of_those_they_wrap() -> None:
    scheduler = omega.Scheduler(
        "edf", ordering=Deadlines(), placement=omega.Constrained(Wrapping()), job_fields=(EVERY[2],)
    )
    assert {each.name for each in scheduler.job_fields} == {"deadline", "rate", "cache"}
    assert scheduler.fresh("s").job_fields == scheduler.job_fields
    assert batch("s").job_fields == ()
    scheduler.ordering = omega.FairPools()  # as in a cell with pools
    assert {each.name for each in scheduler.job_fields} == {"deadline", "rate", "cache"}


def test_two_different_fields_of_one_name_contradict_each_other() -> None:
    other = JobField("deadline", "number", "days")
    with pytest.raises(BadInput, match="declares a different field 'deadline'"):
        omega.Scheduler("edf", ordering=Deadlines(), job_fields=(other,))
    with pytest.raises(BadInput, match="job_fields is not a list"):
        omega.Scheduler("edf", job_fields=("deadline",))  # type: ignore[arg-type]
    assert declared(Deadlines(), Deadlines()) == (DEADLINE,)
    assert merged([(DEADLINE,), (other, EVERY[1])]) == (DEADLINE, EVERY[1])
