"""Constraints over many machines: every answer is what asking machine by machine would give."""

import operator
import re
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, strategies as st

from omega.cellstate.attributes import Attributes
from omega.cellstate.constraints import All, Compare, Either, Expression, Has, Not, OneOf, Value
from omega.cellstate.constraints.evaluation import evaluate, holds
from omega.cellstate.errors import BadInput
from omega.schedulers.constraints.demands import Relation
from omega.schedulers.constraints.enforcing import permitted, related
from tests.unit.schedulers.constraints.site import asking, describe, site

Machine = dict[str, str]
ORDERS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def naive(expression: Expression, machine: dict[str, str]) -> bool:
    """One machine, one step after the other."""
    match expression:
        case Compare(attribute, order, value):
            return attribute in machine and compares(machine[attribute], order, value)
        case OneOf(attribute, values):
            return attribute in machine and any(compares(machine[attribute], "==", value) for value in values)
        case Has(attribute):
            return attribute in machine
        case Not(part):
            return not naive(part, machine)
        case All(parts):
            return all(naive(part, machine) for part in parts)
        case Either(parts):
            return any(naive(part, machine) for part in parts)


def compares(has: str, order: str, value: Value) -> bool:
    if isinstance(value, str):
        return has == value
    return re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e[0-9]+)?", has) is not None and ORDERS[order](float(has), value)


NAMES = st.sampled_from(["rack", "zone", "cores", "machine", "none"])
WORDS = st.sampled_from(["a", "b", "1", "1.0", "2", "-3", "1e1", "nan", "m0", "m3", ""])
NUMBERS = st.sampled_from([0.0, 1.0, 2.0, -3.0, 10.0])
LEAVES: st.SearchStrategy[Expression] = (
    st.builds(Has, NAMES)
    | st.builds(Compare, NAMES, st.just("=="), WORDS | NUMBERS)
    | st.builds(Compare, NAMES, st.sampled_from(["<", "<=", ">", ">="]), NUMBERS)
    | st.builds(OneOf, NAMES, st.lists(WORDS | NUMBERS, min_size=1, max_size=3).map(tuple))
)


@cache
def expressions() -> st.SearchStrategy[Expression]:
    return st.recursive(
        LEAVES,
        lambda inner: (
            st.builds(Not, inner)
            | st.builds(All, st.lists(inner, min_size=2, max_size=3).map(tuple))
            | st.builds(Either, st.lists(inner, min_size=2, max_size=3).map(tuple))
        ),
        max_leaves=8,
    )


MACHINES = st.lists(st.dictionaries(st.sampled_from(["rack", "zone", "cores"]), WORDS, max_size=3), max_size=8)


@given(expressions(), MACHINES, MACHINES)
def test_all_at_once_is_one_by_one(expression: Expression, first: list[Machine], then: list[Machine]) -> None:
    """Also after some machines joined anew with other attributes."""
    snapshot = site(*({"rack": "x"} for _ in range(8)))
    machines: list[Machine] = [{"rack": "x"} for _ in range(8)]
    for news in (first, then):
        describe(snapshot, *news)
        machines[: len(news)] = news
        named = [{**has, "machine": f"m{i}"} for i, has in enumerate(machines)]
        assert evaluate(expression, snapshot.attributes).tolist() == [naive(expression, has) for has in named]


def test_a_machine_without_the_attribute_passes_only_what_denies() -> None:
    known = site({"rack": "a"}, {}).attributes
    for text in ("rack == 'a'", "rack in ['a']", "has rack", "rack == 'a' or rack == 1"):
        assert holds(text, known).tolist() == [True, False]
    for text in ("rack != 'a'", "rack not in ['a', 'b']", "not has rack"):
        assert holds(text, known).tolist() == [False, True]


def test_an_attribute_that_is_empty_is_there() -> None:
    known = site({"rack": ""}, {}).attributes
    for text in ("rack == ''", "rack in ['', 'a']", "has rack"):
        assert holds(text, known).tolist() == [True, False]


def test_a_number_compares_with_what_a_value_says_and_a_text_with_how_it_is_written() -> None:
    known = site({"cores": "8"}, {"cores": "8.0"}, {"cores": "eight"}, {"cores": "16"}).attributes
    assert holds("cores == 8", known).tolist() == [True, True, False, False]
    assert holds("cores == '8'", known).tolist() == [True, False, False, False]
    assert holds("cores > 8", known).tolist() == [False, False, False, True]
    assert holds("cores <= 1000", known).tolist() == [True, True, False, True]
    assert holds("cores != 8", known).tolist() == [False, False, True, True]


def test_the_name_of_a_machine_is_an_attribute() -> None:
    known = site({}, {"machine": "other"}, {}).attributes
    assert holds("machine in ['m1', 'm2', 'nobody']", known).tolist() == [False, True, True]
    assert holds("has machine", known).all()


def test_a_machine_nobody_looked_up_passes_nothing() -> None:
    known = Attributes()
    known.resize(2)
    known.learn([0], [("m0", ())])
    assert holds("rack != 'a'", known).tolist() == [True, False]


def test_an_answer_is_kept_until_something_changes() -> None:
    snapshot = site({"rack": "a"}, {"rack": "b"})
    first = holds("rack == 'a'", snapshot.attributes)
    assert holds("rack == 'a'", snapshot.attributes) is first
    describe(snapshot, {"rack": "a"})  # as before
    assert holds("rack == 'a'", snapshot.attributes) is first
    describe(snapshot, {"rack": "b"})
    assert holds("rack == 'a'", snapshot.attributes).tolist() == [False, False]


def test_a_typo_is_no_constraint_and_an_unknown_attribute_matches_nothing() -> None:
    known = site({"rack": "a"}).attributes
    with pytest.raises(BadInput, match=r"position 6: expected ==, .* found '='; write =="):
        holds("rack = 'a'", known)
    assert not holds("rakc == 'a'", known).any()


def test_an_empty_cell() -> None:
    assert holds("not has rack", site().attributes).tolist() == []


# What a group may use


def test_whoever_demands_nothing_of_machines_may_use_any() -> None:
    snapshot = site({}, {})
    for extra in (
        {},
        {"name": "x", "command": ["a"]},
        {"different_machines": True},
        {"spread": ["rack"]},
        {"constraints": [{"prefer": "has gpu"}]},
        {"near": "db"},
    ):
        assert permitted(asking(extra), 0, snapshot) is None


def test_every_hard_constraint_must_hold_and_preferred_ones_need_not() -> None:
    snapshot = site({"rack": "a", "gpu": "1"}, {"rack": "a"}, {"rack": "b", "gpu": "1"})
    asked = {"constraints": ["has gpu", "rack == 'a'", {"prefer": "rack == 'b'"}]}
    may = permitted(asking(asked), 0, snapshot)
    assert may is not None
    assert may.tolist() == [True, False, False]


def test_what_cannot_be_read_may_use_no_machine_and_stops_nobody() -> None:
    snapshot = site({"rack": "a"})
    for extra in (
        {"constraints": ["rack = 'a'"]},
        {"constraints": "rack"},
        {"spread": [{"most": 1}]},
        {"near": [3]},
        {"different_machines": "yes"},
        {"constraints": [{1: 2}]},
        {"constraints": [b"x"]},
    ):
        may = permitted(asking(extra), 0, snapshot)
        assert may is not None
        assert not may.any()


def test_other_jobs_by_machine_and_by_domain() -> None:
    snapshot = site({"rack": "a"}, {"rack": "a"}, {"rack": "b"}, {})
    snapshot.others = {"db": {0: 3}, "lost": {3: 1, 99: 1}}
    assert related(Relation("db"), snapshot).tolist() == [True, False, False, False]
    assert related(Relation("db", "rack"), snapshot).tolist() == [True, True, False, False]
    assert not related(Relation("nobody", "rack"), snapshot).any()
    assert not related(Relation("lost", "rack"), snapshot).any(), "no rack is no domain"
    apart = permitted(asking({"apart_from": {"job": "db", "domain": "rack"}}), 0, snapshot)
    assert apart is not None
    assert apart.tolist() == [False, False, True, True]
    near = permitted(asking({"near": {"job": "db", "domain": "rack", "required": True}}), 0, snapshot)
    assert near is not None
    assert near.tolist() == [True, True, False, False]
