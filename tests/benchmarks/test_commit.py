"""``omega bench commit`` in small: the shape of its document and what it counts."""

import pytest

from benchmarks.commit import CommitCase, Round, Settings, _figures, measure
from benchmarks.committer import ClientRound
from benchmarks.store import Saved, Store


def test_a_client_commits_the_same_transactions_every_round() -> None:
    plan = ClientRound(client=1, size=10, per_call=4, calls=6, machines=100, incarnation=1)
    calls = plan.transactions()
    assert calls == plan.transactions()
    assert [len(call) for call in calls] == [4] * 6
    transactions = [transaction for call in calls for transaction in call]
    assert len({transaction.job for transaction in transactions}) == 24
    for transaction in transactions:
        assert len({claim.machine for claim in transaction.claims}) == 10
        assert all(claim.count == 1 for claim in transaction.claims)


def test_the_ceiling_is_the_better_way_and_the_ratio_of_medians(store: Store) -> None:
    case = CommitCase(
        [ClientRound(client=0, size=10, per_call=4, calls=5, machines=100, incarnation=1)] * 2, Saved(store, "none", [])
    )
    rates = {"checked": [50.0, 40.0, 90.0], "plain": [80.0, 90.0, 70.0], "unchecked": [100.0, 60.0, 120.0]}
    rates["packed"] = [200.0, 200.0, 200.0]
    for kind, values in rates.items():
        case.rounds[kind] = [Round(rate, 0.5, 0.25) for rate in values]
    found = _figures(case)
    assert found["clients"] == 2
    assert found["claims_per_round"] == 400
    assert (found["claims_per_second"], found["transactions_per_second"]) == (50, 5)
    assert (found["ceiling_claims_per_second"], found["ceiling_kind"]) == (100, "unchecked")
    assert (found["ratio"], found["ratio_to_packed"]) == (0.5, 0.25)
    assert found["spread"] == {
        "claims_per_second": [40, 90],
        "ceiling_claims_per_second": [60, 120],
        "ratio": [0.5, 0.75],
    }


@pytest.mark.server
@pytest.mark.chaos
def test_the_document_has_a_run_for_every_configuration(store_url: str) -> None:
    settings = Settings(
        store=store_url, machines=40, clients=(1, 2), sizes=(3,), per_call=2, seconds=0.01, rounds=1, calm_seconds=0
    )
    document = measure(settings)
    assert document["cell"] == {"machines": 40}
    runs = document["runs"]
    assert isinstance(runs, list)
    assert [(run["clients"], run["size"]) for run in runs] == [(1, 3), (2, 3)]
    for run in runs:
        assert run["claims_per_second"] > 0
        assert run["ceiling_claims_per_second"] == max(run["plain"], run["unchecked"])
        assert run["transactions_per_call"] == 2
        assert run["bytes_per_claim"] > 100
        assert set(run["server_cpu"]) == {"checked", "plain", "unchecked", "packed"}
