"""What groups demand: every form it may be written in, and what is refused."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from omega.cellstate.errors import BadInput
from omega.schedulers.constraints.demands import NONE, Demands, Preferred, Relation, Spread, demands, read_demands
from omega.schedulers.constraints.explanation import warnings
from tests.unit.schedulers.constraints.site import asking, demanding, racks, site
from tests.unit.schedulers.drive import group, work


def test_every_form() -> None:
    said = {
        "constraints": ["has gpu", {"prefer": "zone == 'a'", "weight": 80}, {"prefer": "has ssd"}],
        "spread": ["zone", {"domain": "rack", "most": 2}, {"domain": "power", "share": 0.5}, {"domain": "row"}],
        "different_machines": True,
        "near": "db",
        "apart_from": [{"job": "noisy", "domain": "rack"}, "other"],
    }
    assert read_demands(said) == Demands(
        hard=("has gpu",),
        preferred=(Preferred("zone == 'a'", 80), Preferred("has ssd", 50)),
        spread=(Spread("zone"), Spread("rack", 2), Spread("power", None, 0.5), Spread("row")),
        different=True,
        near=(Relation("db", "machine", required=False),),
        apart=(Relation("noisy", "rack", required=True), Relation("other", "machine", required=True)),
    )
    required = read_demands({"near": {"job": "db", "domain": "rack", "required": True}})
    assert required.near == (Relation("db", "rack", required=True),)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"constraints": "has a"}, "constraints: 'has a' is not a list"),
        ({"constraints": [3]}, "3 is not a constraint; write a text or {prefer: text, weight: 1 to 100}"),
        (
            {"constraints": [{"weight": 3}]},
            "{'weight': 3} is not a constraint; write a text or {prefer: text, weight: 1 to 100}",
        ),
        ({"constraints": [{"prefer": "a"}]}, "constraint 'a': position 2: .* found the end"),
        (
            {"constraints": [{"prefer": "has a", "weight": 0}]},
            "weight 0 is not allowed; want a whole number from 1 to 100",
        ),
        ({"constraints": [{"prefer": "has a", "weight": True}]}, "weight True is not allowed"),
        ({"spread": "rack"}, "spread: 'rack' is not a list"),
        ({"spread": [["rack"]]}, r"\['rack'\] is not a failure domain; write an attribute, {domain: rack, most: 2}"),
        ({"spread": ["a rack"]}, "'a rack' is not the name of a machine's attribute; write for example rack"),
        ({"spread": [{"domain": "rack", "least": 2}]}, "unknown field 'least'; allowed: domain, most, share"),
        ({"spread": [{"domain": "rack", "share": 0}]}, "share 0 is not allowed; want more than 0 and at most 1"),
        ({"spread": [{"domain": "rack", "share": float("nan")}]}, "share nan is not allowed"),
        ({"different_machines": "yes"}, "different_machines: 'yes' is not allowed; write true or false"),
        ({"near": ""}, "'' is not a job; write its name or {job: name, domain: rack}"),
        ({"near": {"job": "db", "required": 1}}, "required 1 is not allowed; write true or false"),
        ({"apart_from": {"job": "db", "required": False}}, "unknown field 'required'; allowed: job, domain"),
        ({"apart_from": {"job": "db", "domain": "a rack"}}, "'a rack' is not the name of a machine's attribute"),
        ({"apart_from": [["x" * 1_000]]}, r"\['x+… is not a job"),
    ],
)
def test_what_is_refused(said: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInput, match=reason) as caught:
        read_demands(said)
    assert len(str(caught.value)) < 250
    assert demands(asking(said).job, 0).fault == str(caught.value), "a scheduler goes on"


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=3)
    | st.sampled_from(["rack", "has a", "domain", "most"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["domain", "most", "share", "prefer", "job"]) | st.integers(), inner, max_size=3
        )
    ),
    max_leaves=6,
)
FIELDS = st.sampled_from(["constraints", "spread", "different_machines", "near", "apart_from", "name"])


@given(st.dictionaries(FIELDS, VALUES, max_size=3) | VALUES)
def test_whatever_a_job_says_it_is_read_or_a_fault(extra: Any) -> None:
    found = work("j", spec={"groups": [extra]})
    wants = demands(found.job, 0)
    assert wants.fault or wants == (read_demands(extra) if isinstance(extra, dict) else NONE)


def test_a_group_that_demands_nothing() -> None:
    for found in (work("j"), asking({}), asking({"name": "a", "command": ["b"]}), work("j", spec={"groups": 3})):
        assert demands(found.job, 0) is NONE
        assert demands(found.job, 1) is NONE
    found = demanding((group((1, 1), 1), {}), (group((1, 1), 1), {"different_machines": True}))
    assert [demands(found.job, g).different for g in range(2)] == [False, True]


@pytest.mark.parametrize(
    ("spread", "tasks", "bound"),
    [
        (Spread("rack"), 10, None),
        (Spread("rack", most=3), 10, 3),
        (Spread("rack", share=0.5), 10, 5),
        (Spread("rack", share=0.5), 3, 1),
        (Spread("rack", share=0.3), 10, 3),
        (Spread("rack", share=0.1), 5, 1),
        (Spread("rack", share=1.0), 7, 7),
        (Spread("rack", most=2, share=0.5), 10, 2),
        (Spread("rack", most=8, share=0.5), 10, 5),
    ],
)
def test_bounds_never_exceed_what_was_said_but_leave_one(spread: Spread, tasks: int, bound: int | None) -> None:
    assert spread.bound(tasks) == bound


def test_bounds_in_words() -> None:
    said = [str(spread) for spread in (Spread("a"), Spread("a", 2), Spread("a", share=0.5), Spread("a", 2, 0.5))]
    assert said == ["a", "a ≤ 2", "a ≤ 50%", "a ≤ 2, ≤ 50%"]


# What is suspicious


def warned(extra: dict[str, Any], *machines: dict[str, str]) -> list[str]:
    return warnings(read_demands(extra), site(*machines).attributes)


def test_nothing_suspicious() -> None:
    asked = {"constraints": ["rack == 'r0'", "machine != 'm7'"], "spread": ["rack"], "near": "db"}
    assert warned(asked, *racks(2, 2)) == []


def test_an_attribute_that_no_machine_has() -> None:
    assert warned({"constraints": ["rakc == 'a'"]}, {"rack": "a", "zone": "b"}) == [
        "constraint rakc == 'a': no machine has the attribute rakc; did you mean rack? known: machine, rack, zone",
        "constraint rakc == 'a': matches no machine",
    ]
    assert warned({"constraints": ["qqq != 'a'"]}, {"rack": "a"}) == [
        "constraint qqq != 'a': no machine has the attribute qqq; known: machine, rack"
    ]


def test_a_value_that_no_machine_has() -> None:
    assert warned({"constraints": [{"prefer": "rack == 'z'"}]}, {"rack": "a"}) == [
        "constraint rack == 'z': matches no machine; known values of rack: a"
    ]


def test_a_domain_that_no_machine_has() -> None:
    asked = {"spread": [{"domain": "powr", "most": 1}], "near": {"job": "db", "domain": "row"}, "apart_from": "x"}
    assert warned(asked, {"power": "p"}) == [
        "spread powr ≤ 1: no machine has the attribute powr; did you mean power? known: machine, power",
        "near db: no machine has the attribute row; known: machine, power",
    ]


def test_many_attributes_are_not_all_told() -> None:
    (said,) = warned({"spread": ["x"]}, {f"a{i}": "1" for i in range(50)})
    assert said.endswith("known: a0, a1, a10, a11, a12, a13, a14, a15, …")
