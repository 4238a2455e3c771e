"""Names become schedulers and policies; a stranger's package is a full citizen, and a broken one hurts only itself."""

import sys
from pathlib import Path
from random import Random

import pytest

from omega.cellstate.errors import BadInput
from omega.schedulers import registry
from omega.schedulers.composition import PROTOCOLS
from omega.schedulers.ordering.without_pools import Fifo
from omega.schedulers.placement.service import BestFit
from omega.schedulers.scheduler import Scheduler

MODULE = """
from omega.schedulers import scheduler
from omega.schedulers.placement import service

class Coldest(service.BestFit):
    "Best fit, colder."

cold = scheduler.Scheduler("cold", placement=Coldest())
number = 3
def make(seed): return 3
def fail(seed): raise RuntimeError("no luck\\nat all")
"""
POINTS = """
[omega.schedulers]
cold = stranger:cold
batch = stranger:cold
[omega.placement]
coldest = stranger:Coldest
broken = stranger:Nothing
worse = stranger_that_fails:Thing
"""


def install(path: Path, name: str, points: str = POINTS) -> None:
    """What installing a package leaves on the path."""
    info = path / f"{name}-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(points)


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path, "Omega_Stranger")
    (tmp_path / "stranger.py").write_text(MODULE)
    (tmp_path / "stranger_that_fails.py").write_text("raise SystemExit('I quit\\nnow')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    return tmp_path


def test_what_comes_with_omega_is_offered_like_the_rest() -> None:
    assert (registry.SCHEDULERS, *PROTOCOLS, "admission", "cell_choice") == registry.AXES
    assert {"batch", "service"} <= set(registry.offers("schedulers"))
    for axis in registry.AXES:
        for name, offer in registry.offers(axis).items():
            if offer.package == registry.OWN:
                assert offer.name == name
                assert callable(offer.load())


def test_a_strangers_package_is_seen(stranger: Path) -> None:
    offer = registry.offers("placement")["coldest"]
    assert (offer.package, offer.version, offer.target) == ("omega-stranger", "2.0", "stranger:Coldest")
    assert offer.load().__doc__ == "Best fit, colder."
    found = registry.scheduler("cold", "s")
    assert (found.kind, found.rng.random()) == ("cold", Random("s").random())


def test_omegas_own_names_cannot_be_taken(stranger: Path) -> None:
    assert registry.scheduler("batch").kind == "batch"


def test_of_two_packages_that_offer_one_name_the_first_counts(stranger: Path) -> None:
    install(stranger, "another", "[omega.placement]\ncoldest = another:Coldest\n")
    assert registry.offers("placement")["coldest"].package == "another"


@pytest.mark.parametrize(
    ("only", "seen"), [("", False), ("other", False), ("omega-stranger", True), ("a, omega_stranger", True)]
)
def test_loading_can_be_restricted(stranger: Path, monkeypatch: pytest.MonkeyPatch, only: str, seen: bool) -> None:
    monkeypatch.setenv("OMEGA_PLUGINS", only)
    found = registry.offers("placement")
    assert ("coldest" in found) is seen
    assert "first-fit" in found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "stranger:Nothing cannot be used: AttributeError: module 'stranger' has no attribute 'Nothing'"),
        ("worse", "stranger_that_fails:Thing cannot be used: {0}/stranger_that_fails.py:1: SystemExit: I quit; fix"),
    ],
)
def test_a_broken_one_is_one_line_and_the_rest_works(stranger: Path, name: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        registry.offer("placement", name).load()
    assert str(error.value).startswith(f"placement '{name}' of package omega-stranger: {said.format(stranger)}")
    assert "\n" not in str(error.value)
    assert registry.offer("placement", "coldest").load()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("batsch", "unknown scheduler 'batsch'; did you mean batch?"),
        ("xyz", "unknown scheduler 'xyz'; known: batch, "),
        ("stranger:number", "scheduler 'stranger:number': is a int; want an omega.Scheduler, or a function of a seed"),
        ("stranger:make", "scheduler 'stranger:make': made a int; want"),
        ("stranger:fail", "scheduler 'stranger:fail': {0}/stranger.py:11: RuntimeError: no luck; want"),
        ("stranger:", "scheduler 'stranger:': stranger: cannot be used: AttributeError"),
        ("no.such:thing", "scheduler 'no.such:thing': no.such:thing cannot be used: ModuleNotFoundError"),
    ],
)
def test_a_name_that_gives_no_scheduler(stranger: Path, name: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        registry.scheduler(name)
    assert str(error.value).startswith(said.format(stranger))
    assert "\n" not in str(error.value)


def test_nothing_installed_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda **_: [])
    with pytest.raises(BadInput, match="none is installed, not even Omega's own"):
        registry.scheduler("batch")


def test_a_scheduler_by_module_and_attribute_has_nothing_in_hand(stranger: Path) -> None:
    shared = registry.imported("stranger:cold", "it")
    shared.outbox.gone.append("a")
    found = registry.scheduler("stranger:cold", "s")
    assert found is not shared
    assert found.ordering is not shared.ordering
    assert (found.outbox.gone, found.placement) == ([], shared.placement)


def test_fresh_keeps_what_was_set_and_who_listens() -> None:
    heard: list[object] = []
    own = Scheduler("cold", Fifo(), BestFit(apart=3), jobs_per_call=5, instruments=heard)  # type: ignore[arg-type]
    own.working["a"] = None  # type: ignore[assignment]
    found = own.fresh("s")
    assert (found.kind, found.placement, found.jobs_per_call, found.working) == ("cold", BestFit(apart=3), 5, {})
    found.instruments.append(None)  # type: ignore[arg-type]
    assert heard == []
