"""`omega sim delay` and `omega sim slots`."""

from tests.cli.conftest import Omega


def test_it_prints_the_offers_to_refuse_and_what_they_cost() -> None:
    omega = Omega(None)
    found = omega.json("sim", "delay", "--locality", "0.95")
    assert (found["skips"], round(found["wait"], 3)) == (24, 0.03)
    assert found["locality"] >= 0.95
    assert omega.json("sim", "delay", "--skips", "24") == found
    assert "24 offers" in omega.text("sim", "delay", "--locality", "0.95")


def test_it_wants_a_locality_or_skips() -> None:
    assert "give --locality or --skips" in Omega(None).error("sim", "delay", code=2)
    assert "--locality" in Omega(None).error("sim", "delay", "--locality", "1.5", code=2)


def test_claims_of_the_paper_are_checked_by_name() -> None:
    omega = Omega(None)
    found = omega.json("sim", "slots", "delay-facebook", "--seeds", "2")
    assert (found["page"], [each["verdict"] for each in found["experiments"]]) == (None, ["holds"])
    assert "unknown experiment 'delay-all'; known: delay-locality, " in omega.error("sim", "slots", "delay-all", code=1)


def test_copies_of_slow_tasks_are_simulated() -> None:
    omega = Omega(None)
    words = ("sim", "copies", "--jobs", "10", "--machines", "20", "--stragglers", "0.1")
    found = omega.json(*words)
    without, copied = found["p99_s"]
    assert copied < without
    assert f"copies  {found['copies']}" in omega.text(*words)
