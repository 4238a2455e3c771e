"""Careful placement: bounds are never broken, room is found where there is some, points decide the rest."""

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from omega.cellstate.model import Gang
from omega.cellstate.replies import Reply
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Position
from omega.schedulers.constrained import Constrained
from omega.schedulers.placement.domains import patches, places_of, tasks_of
from omega.schedulers.placement.service import ServicePlacement
from omega.schedulers.policies import Placement, machines_of
from omega.schedulers.work import Work
from omega.simulation.packed_snapshot import PackedSnapshot
from omega.testing import PlacementContract
from tests.unit.schedulers.constraints.site import asking, demanding, describe, racks, site, tasks_by
from tests.unit.schedulers.drive import copy, group, room, rows, work


class TestService(PlacementContract):
    policies = (
        ServicePlacement(),
        ServicePlacement(effort=0, apart=0.0),
        ServicePlacement(effort=3, fit=0.0, balance=1.0),
    )


def total(claims: object) -> int:
    return sum(claim.count for claim in claims)  # type: ignore[attr-defined]


def place(found: Work, snapshot: Snapshot, policy: ServicePlacement | None = None, seed: int = 1) -> Any:
    return (policy or ServicePlacement()).place(found, snapshot, Random(seed))


# Bounds on domains


def test_no_domain_takes_more_than_the_bound_at_any_level() -> None:
    machines = [{"rack": f"r{i // 4}", "power": f"p{i // 8}", "zone": f"z{i // 24}"} for i in range(48)]
    snapshot = site(*machines)
    asked = {"spread": [{"domain": "rack", "most": 2}, {"domain": "power", "share": 0.15}, "zone"]}
    claims = place(asking(asked, 20), snapshot)
    assert total(claims) == 18, "six sources of power, three tasks each"
    assert max(tasks_by(snapshot, claims, "rack").values()) == 2
    assert set(tasks_by(snapshot, claims, "power").values()) == {3}
    assert tasks_by(snapshot, claims, "zone") == {"z0": 9, "z1": 9}


def test_a_spread_that_cannot_be_met_leaves_the_rest_out_and_a_gang_wholly() -> None:
    snapshot = site(*racks(3, 5))
    asked = {"spread": [{"domain": "rack", "most": 2}]}
    before = room(snapshot)
    assert place(asking(asked, 7, gang=Gang.YES), snapshot) == []
    assert room(snapshot) == before
    assert total(place(asking(asked, 7), snapshot)) == 6


def test_machines_in_no_domain_take_nothing_when_it_is_bounded_and_count_as_one_when_it_is_not() -> None:
    snapshot = site({"rack": "a"}, {"rack": "b"}, {}, {})
    assert machines_of(place(asking({"spread": [{"domain": "rack", "most": 5}]}, 8), snapshot)) == {0, 1}
    assert place(asking({"spread": [{"domain": "powr", "most": 5}]}, 8), snapshot) == []
    claims = place(asking({"spread": ["rack"]}, 6), snapshot, ServicePlacement(apart=0.0))
    assert tasks_by(snapshot, claims, "rack") == {"a": 2, "b": 2, None: 2}
    assert total(place(asking({"spread": ["powr"]}, 8), snapshot)) == 8


def test_different_machines() -> None:
    snapshot = site({}, {}, {})
    assert sorted(claim.machine for claim in place(asking({"different_machines": True}, 9), snapshot)) == [0, 1, 2]
    found = asking({"different_machines": True}, 9)
    found.places = {1: 1}
    assert sorted(claim.machine for claim in place(found, snapshot)) == [0, 2]
    most = place(asking({"spread": [{"domain": "machine", "most": 2}]}, 9), snapshot)
    assert [claim.count for claim in most] == [2, 2, 2]


def test_groups_of_a_job_count_together_and_the_bounded_ones_go_first() -> None:
    snapshot = site(*racks(2, 1), free=(3, 3))
    bounded = {"spread": [{"domain": "rack", "most": 1}]}
    claims = place(demanding((group((1, 1), 4), {}), (group((1, 1), 2), bounded)), snapshot)
    assert Counter({g: sum(c.count for c in claims if c.group == g) for g in (0, 1)}) == {0: 4, 1: 2}
    snapshot = site(*racks(2, 1))
    found = demanding((group((1, 1), 1), bounded), (group((1, 1), 3), bounded))
    assert total(place(found, snapshot)) == 2


def test_tasks_that_run_already_count_by_lookup_or_record_or_memory() -> None:
    asked = {"spread": [{"domain": "rack", "most": 2}]}

    def left(found: Work, snapshot: Snapshot) -> dict[str | None, int]:
        return tasks_by(snapshot, place(found, snapshot), "rack")

    snapshot, found = site(*racks(2, 2)), asking(asked, 9)
    found.places = {0: 1}
    assert left(found, snapshot) == {"r0": 1, "r1": 2}
    snapshot, found = site(*racks(2, 2)), asking(asked, 9)
    found.job.groups[0].runs = ((5, 1, False), (6, 2, True), (7, 3, False))
    assert left(found, snapshot) == {"r0": 1, "r1": 1}, "one that leaves counts no more"
    snapshot, found = site(*racks(2, 2)), demanding((group((1, 1), 9, unplaced=7), asked))
    found.job.groups[0].runs = ((5, 1, False),)
    assert left(found, snapshot) == {"r1": 2}, "a single run has all that is placed"
    snapshot.placed = {"j": {3: 2, 99: 1}}
    assert left(found, site_with(snapshot)) == {"r0": 2}


def site_with(known: Snapshot) -> Snapshot:
    snapshot = site(*racks(2, 2))
    snapshot.placed = known.placed
    return snapshot


def test_a_share_is_of_all_tasks_that_run_or_are_to_run() -> None:
    found = demanding((group((1, 1), 20, unplaced=10), {"spread": [{"domain": "rack", "share": 0.25}]}))
    snapshot = site(*racks(2, 2))
    assert tasks_of(found) == 20
    assert set(tasks_by(snapshot, place(found, snapshot), "rack").values()) == {5}


def test_domains_that_overlap_do_not_lead_into_a_dead_end() -> None:
    """Taking the machine in rack 0 with power 0 would shut both others out."""
    machines = [{"rack": "r0", "power": "p0"}, {"rack": "r0", "power": "p1"}, {"rack": "r1", "power": "p0"}]
    asked = {"spread": [{"domain": "rack", "most": 1}, {"domain": "power", "most": 1}]}
    for seed in range(30):
        snapshot = site(*machines)
        assert machines_of(place(asking(asked, 2), snapshot, seed=seed)) == {1, 2}


MACHINES = st.lists(
    st.fixed_dictionaries(
        {}, optional={"rack": st.sampled_from("abc"), "power": st.sampled_from("xy"), "gpu": st.just("1")}
    ),
    min_size=1,
    max_size=12,
)
BOUNDS = st.lists(
    st.sampled_from(
        [
            {"domain": "rack", "most": 1},
            {"domain": "rack", "most": 3},
            {"domain": "power", "share": 0.5},
            {"domain": "machine", "most": 2},
            "rack",
            "power",
        ]
    ),
    max_size=3,
)


@given(MACHINES, BOUNDS, st.integers(1, 15), st.booleans(), st.booleans(), st.integers(0, 9), st.data())
def test_whatever_is_asked_nothing_is_broken_and_no_machine_that_would_do_is_left(
    machines: list[dict[str, str]],
    spread: list[Any],
    tasks: int,
    different: bool,
    gpu: bool,
    seed: int,
    data: st.DataObject,
) -> None:
    snapshot = site(*machines, free=(2, 2))
    asked = {"spread": spread, "different_machines": different, "constraints": ["has gpu"] if gpu else []}
    found = asking(asked, tasks)
    found.places = data.draw(st.dictionaries(st.integers(0, len(machines) - 1), st.integers(1, 2), max_size=2))
    had = Counter(found.places)
    claims = place(found, snapshot, ServicePlacement(effort=data.draw(st.sampled_from([0, 1, 100]))), seed)
    assert total(claims) <= tasks
    added = Counter({claim.machine: claim.count for claim in claims})
    assert len(added) == len(claims), "one claim a machine"
    bounds = [(s["domain"], s.get("most") or max(1, int(s["share"] * tasks))) for s in spread if isinstance(s, dict)]
    bounds += [("machine", 1)] if different else []

    def domain(machine: int, name: str) -> str | None:
        return snapshot.attributes.get(machine, name)

    def counts(name: str) -> Counter[str | None]:
        found: Counter[str | None] = Counter()
        for machine, count in (had + added).items():
            found[domain(machine, name)] += count
        return found

    for machine, count in added.items():
        assert count <= 2
        assert not gpu or "gpu" in machines[machine]
        for name, most in bounds:
            assert domain(machine, name) is not None
            assert counts(name)[domain(machine, name)] <= most
    if total(claims) < tasks:
        for machine in range(len(machines)):
            would_do = (
                added[machine] < 2
                and (not gpu or "gpu" in machines[machine])
                and all(domain(machine, n) and counts(n)[domain(machine, n)] < most for n, most in bounds)
            )
            assert not would_do


# Evenness and points


def test_domains_are_filled_evenly_and_machines_within_them() -> None:
    machines = [{"rack": f"r{i // 2}", "zone": f"z{i // 6}"} for i in range(18)]
    snapshot = site(*machines)
    claims = place(asking({"spread": ["rack", "zone"]}, 27), snapshot)
    assert set(tasks_by(snapshot, claims, "zone").values()) == {9}
    assert set(tasks_by(snapshot, claims, "rack").values()) == {3}
    assert {claim.count for claim in claims} == {1, 2}


def test_tasks_that_run_already_count_for_evenness_too() -> None:
    found, snapshot = asking({"spread": ["rack"]}, 3), site(*racks(2, 4))
    found.places = {0: 3}
    assert tasks_by(snapshot, place(found, snapshot), "rack") == {"r1": 3}
    found, snapshot = work("a", group((1, 1), 2)), site({}, {}, {})
    found.places = {1: 1}
    assert machines_of(place(found, snapshot)) == {0, 2}


def test_evenness_gives_way_to_room_and_bounds_do_not() -> None:
    snapshot = site({"zone": "a"}, {"zone": "b"}, free=(2, 2))
    describe(snapshot, {"zone": "b"}, start=1)
    snapshot.take(0, (2, 2), 1)
    assert total(place(asking({"spread": ["zone"]}, 2), snapshot)) == 2


def test_a_job_without_domains_keeps_to_different_machines_while_it_can() -> None:
    assert sorted(claim.count for claim in place(work("a", group((1, 1), 7)), copy(*[(9, 9)] * 5))) == [1, 1, 1, 2, 2]
    whole = place(work("a", group((1, 1), 7)), copy(*[(9, 9)] * 5), ServicePlacement(apart=0.0))
    assert [claim.count for claim in whole] == [7]


def test_best_fit_takes_the_tightest_machine_and_balance_the_most_even_one() -> None:
    snapshot = site({}, {}, free=(100, 100))
    snapshot.take(0, (50, 50), 1)
    assert machines_of(place(work("a", group((10, 10), 1)), snapshot, ServicePlacement(balance=0.0))) == {0}
    snapshot = site({}, {}, free=(100, 100))
    snapshot.take(0, (40, 0), 1)
    snapshot.take(1, (0, 30), 1)
    assert machines_of(place(work("a", group((30, 0), 1)), snapshot, ServicePlacement(fit=0.0, balance=1.0))) == {1}
    assert machines_of(place(work("a", group((0, 30), 1)), snapshot, ServicePlacement(fit=0.0, balance=1.0))) == {0}


def test_a_preferred_constraint_decides_while_there_is_room_and_the_heavier_wins() -> None:
    machines = [{"ssd": "yes"}, {"zone": "a"}, {}]
    snapshot = site(*machines, free=(2, 2))
    asked = {"constraints": [{"prefer": "has ssd", "weight": 90}, {"prefer": "zone == 'a'", "weight": 60}]}
    order = []
    for _ in range(6):
        (claim,) = place(asking(asked), snapshot)
        order.append(claim.machine)
    assert order == [0, 0, 1, 1, 2, 2]


def test_preference_is_weighed_against_crowding() -> None:
    snapshot = site({"ssd": "yes"}, {}, free=(100, 100))
    claims = place(asking({"constraints": [{"prefer": "has ssd", "weight": 50}]}, 25), snapshot)
    by_machine = {claim.machine: claim.count for claim in claims}
    assert by_machine[0] - by_machine[1] in (4, 5, 6), "half of ten points are worth five tasks"


def test_near_is_preferred_and_apart_is_kept() -> None:
    snapshot = site(*racks(3, 2), free=(2, 2))
    snapshot.others = {"db": {2: 1}, "web": {0: 1}}
    near = {"near": {"job": "db", "domain": "rack"}, "apart_from": "web"}
    claims = place(asking(near, 12), snapshot)
    assert total(claims) == 10
    assert 0 not in machines_of(claims)
    snapshot = site(*racks(3, 2))
    snapshot.others = {"db": {2: 1}}
    assert machines_of(place(asking(near, 2), snapshot)) == {2, 3}


def test_ties_are_broken_at_random_also_between_domains() -> None:
    snapshot, chosen = site(*racks(10, 5)), Counter[str | None]()
    for seed in range(60):
        chosen += Counter(tasks_by(snapshot, place(asking({"spread": ["rack"]}), snapshot, seed=seed), "rack"))
        snapshot.undo(0)
    assert len(chosen) > 7


def test_the_rest_of_the_cell_is_looked_at_when_a_part_is_not_enough() -> None:
    snapshot = site(*racks(50, 4), free=(1, 1))
    assert total(place(asking({"spread": ["rack"]}, 200), snapshot, ServicePlacement(effort=5))) == 200
    assert total(place(asking({"spread": ["rack"]}, 3), site(*racks(50, 4)), ServicePlacement(effort=1))) == 3


def test_ten_thousand_tasks_over_ten_thousand_machines() -> None:
    machines = racks(500, 20)
    snapshot = site(*machines)
    claims = place(asking({"spread": [{"domain": "rack", "most": 20}]}, 10_000), snapshot)
    assert total(claims) == 10_000
    assert set(tasks_by(snapshot, claims, "rack").values()) == {20}


@pytest.mark.parametrize("policy", [ServicePlacement(), Constrained()])
def test_a_copy_as_the_simulator_keeps_it_gives_the_same_claims(policy: Placement) -> None:
    asked = {"constraints": ["zone == 'a'"]} if isinstance(policy, Constrained) else {"spread": ["zone"]}
    machines = racks(4, 3, zone="a")
    whole, kept = site(*machines, free=(9, 9)), PackedSnapshot(2)
    kept.apply(Reply(Position(1, "t"), full=True, rows=rows([(9, 9)] * len(machines))))
    describe(kept, *machines)
    for snapshot in (whole, kept):
        snapshot.take(0, (9, 9), 1)
    assert policy.place(asking(asked, 7), kept, Random(1)) == policy.place(asking(asked, 7), whole, Random(1))
    fresh = PackedSnapshot(2)
    fresh.apply(Reply(Position(1, "t"), full=True, rows=rows([(9, 9)] * 3)))
    assert policy.place(asking({"constraints": ["has rack"]}), fresh, Random(1)) == [], "nobody looked anything up"


def test_patches_are_machines_alike_in_every_domain() -> None:
    snapshot = site({"a": "1", "b": "1"}, {"a": "1", "b": "2"}, {"a": "1", "b": "1"}, {})
    found = patches(snapshot.attributes, ("a", "b"))
    assert found.of[0] == found.of[2]
    assert len({*found.of.tolist()}) == 3
    for machine in range(4):
        for name, codes in zip(("a", "b"), found.codes, strict=True):
            assert codes[found.of[machine]] == snapshot.attributes.codes(name)[machine]
    none = patches(snapshot.attributes, ())
    assert (none.of.tolist(), none.codes) == ([0] * 4, ())


def test_many_kinds_of_domain_with_many_values_each_stay_apart() -> None:
    machines = [{f"k{k}": str((i * 7919 + k) % 997) for k in range(8)} for i in range(1_000)]
    snapshot = site(*machines)
    found = patches(snapshot.attributes, tuple(f"k{k}" for k in range(8)))
    assert len(np.unique(found.of)) == 997, "997 to the power of 8 would not fit in 64 bits"


def test_places_are_those_of_machines_in_the_copy() -> None:
    found = work("a")
    found.places = {0: 2, 7: 1}
    assert places_of(found, copy((1, 1))) == {0: 2}
