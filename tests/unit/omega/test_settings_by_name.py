"""Every setting arrives under its own name: with values that all differ, two exchanged ones are seen."""

import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from omega.cellstate.clock import since_1970
from omega.cellstate.events import Fact, Limit, parse
from omega.cellstate.fold import Books
from omega.cellstate.memory.state import Book
from omega.cellstate.model import MOST_PRECEDENCE, Limits
from omega.cellstate.redis.records import read_kind, write_limits
from omega.cellstate.replies import KindUse
from omega.cellstate.resources import Dimensions
from omega.cellstate.transaction import Detection, Mode
from omega.cli.cell import limits as limits_command
from omega.cli.options import named
from omega.experiments import configuration
from omega.experiments.configuration import Configuration
from omega.limits import changed
from omega.live import choice, member
from omega.live.processes.supervisor import ProcessSupervisor
from omega.live.simulated import process as simulated
from omega.queries.cells import limits_json
from omega.schedulers.placement import service
from omega.schedulers.placement.service import ServicePlacement, Spreading
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.process import scheduler as process
from omega.schedulers.retrying import RetryPolicy, Step
from omega.schedulers.rolling import Policy
from omega.workload import presets
from omega.workload.synthetic import Mix
from tests.unit.schedulers.constraints.site import asking, site


def test_settings_of_a_simulation() -> None:
    alike: dict[str, Any] = {
        "architecture": "two-level", "days": 2.0, "seed": 3, "t_job_batch": 0.4, "t_job_service": 0.5, "t_task": 0.06,
        "t_task_service": 0.07, "placement": "best-fit", "sharing": "hash", "release_moves_number": False,
        "reference_rules": True,
    }  # fmt: skip
    given = Configuration(batch=8, detection="coarse", commit="incremental", workload="A", rate=9.0, **alike)
    settings = asdict(given.settings())
    assert alike.items() <= settings.items()
    rest = {"batch_schedulers": 8, "detection": Detection.COARSE, "commit": Mode.INCREMENTAL, "offers": None}
    assert rest.items() <= settings.items()


def test_size_and_load_of_a_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(presets, "draw", lambda *words, **named: seen.append((words, named)))
    configuration._draw.cache_clear()
    Configuration(workload="A", seed=3, days=4.0, rate=5.0, machines=60, cpu=70, memory=80).make_workload()
    configuration._draw.cache_clear()
    size = presets.Size(machines=60, largest_cpu=70, largest_memory=80)
    assert seen == [(("A", 3, 4.0), {"rate": 5.0, "size": size})]


def test_the_largest_machine_of_a_preset() -> None:
    drawn = presets.draw("C", 1, 0.001, size=presets.Size(machines=60, largest_cpu=7_000, largest_memory=90_000))
    assert tuple(max(each.capacity[i] for each in drawn.machines) for i in (0, 1)) == (7_000, 90_000)


def test_how_a_job_is_updated() -> None:
    health = {"healthy_after": 2, "grace": 3, "command": ["probe"]}
    found = Policy.of({"update": {"max_down": 4, "progress_deadline": 5, "health": health}})
    assert found == Policy(max_down=4, healthy_after_ms=2, grace_ms=3, command=("probe",), progress_deadline_ms=5)


def test_what_a_preset_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Mix] = []

    def draws(*given: Any, **_: Any) -> Any:
        seen.extend(each for each in given if isinstance(each, Mix))
        return SimpleNamespace(machines=(), arrivals=(), about="") if len(seen) == 1 else []

    for name in ("google_mix", "_recent", "_lasting"):
        monkeypatch.setattr(presets, name, draws)
    presets.draw("A", 1, 2.0, rate=4.0, size=presets.Size(machines=60, largest_cpu=70, largest_memory=80))
    preset = presets.preset("A")
    size: dict[str, Any] = {
        "duration": 60 / presets.MACHINES * preset.duration,
        "largest_cpu": 70,
        "largest_memory": 80,
    }
    mix = Mix(seconds=2.0 * presets.DAY, rate=4.0 * preset.pace, service_rate=0.25, **size)
    now = Mix(seconds=2.0 * presets.DAY, rate=preset.pace, service_rate=1.0, **size)
    assert seen == [mix, now, mix]


def test_limits_of_a_kind_in_every_form() -> None:
    dimensions = Dimensions(("cpu", "memory", "gpu"))
    wanted = limits_command._wanted(named("2", "3Gi", {"gpu": "4"}), "5", "6..7")
    limits = changed(dimensions, None, wanted)
    assert limits == Limits(resources=(2_000, 3_072, 4), jobs=5, precedence=(6, 7))
    assert changed(dimensions, limits, {"resources": {"memory": None}}) == Limits((2_000, None, 4), 5, (6, 7))
    assert changed(dimensions, limits, {"precedence": None}).precedence == (0, MOST_PRECEDENCE)
    assert write_limits(Limits((None, None, None))) == "- - - - - -"
    text = write_limits(limits)
    assert read_kind(f"{text} 8 9 10 11", 3) == (limits, 8, (9, 10, 11))
    (said,) = parse("limit batch 5 6 7 2000,3072,4")
    assert isinstance(said, Limit)
    books = Books(3, 1)
    books.feed([Fact(1, 0, "ada", said)])
    assert books.settings["kind batch"] == limits
    assert Book("batch", (5, None, 2_000, 3_072, 4), (6, 7)).limits == limits
    document = limits_json(dimensions, KindUse(limits, 8, (9, 10, 11)))
    amounts = {name: tuple(each.values()) for name, each in document["resources"].items()}
    assert amounts == {"cpu": (9, 2_000, 0), "memory": (10, 3_072, 0), "gpu": (11, 4, 7)}
    assert (document["jobs"], document["precedence"]) == ({"used": 8, "limit": 5, "over": 3}, [6, 7])


SETTINGS = {
    "OMEGA_MODE": "gang", "OMEGA_DETECTION": "coarse", "OMEGA_JOBS_PER_CALL": "7", "OMEGA_PREEMPTION": "precedence",
}  # fmt: skip
MEMBER = {"OMEGA_STORE": "unix:///s", "OMEGA_CELL": "lab", "OMEGA_LEASE_MS": "300", "OMEGA_SPEED": "2.5"}


@pytest.mark.parametrize(
    ("kind", "runs", "want"),
    [
        ("batch", "omega.schedulers.process.scheduler.run_member", ["unix:///s", "lab", "batch/x", "batch", 300, None]),
        ("agent", "omega.live.agent.process.run_agent", ["unix:///s", "lab", "x", "state", 1_200]),
        (
            "simulated",
            "omega.live.simulated.process.run_simulated_executor",
            ["unix:///s lab", "x", 2.5, "stop", 1_200],
        ),
    ],
)
def test_options_of_a_member(monkeypatch: pytest.MonkeyPatch, kind: str, runs: str, want: list[object]) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(runs, lambda *given: seen.extend(given))
    monkeypatch.setattr("omega.embedded.places.state_directory", lambda: "state")
    monkeypatch.setattr("omega.schedulers.process.signals.await_store", lambda *_: None)
    monkeypatch.setattr("omega.cellstate.store.connect_cell", lambda *names: " ".join(names))
    monkeypatch.setattr("omega.schedulers.process.signals.StopRequest", lambda: "stop")
    assert member.run(MEMBER | {"OMEGA_MEMBER": f"{kind}/x"}) == 0
    seen = [getattr(each, "lease_ms", getattr(each, "kind", each)) for each in seen]
    assert seen == want


def test_settings_of_a_process_reach_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    cell = SimpleNamespace(unchecked=False, schedulers=SimpleNamespace(figures=dict, renew=lambda *_: []))

    def connect(*given: str) -> Any:
        seen.append(given)
        return cell

    monkeypatch.setattr(process, "connect_cell", connect)

    def drive(*given: Any, **named: Any) -> Any:
        seen.append((given, named))
        return SimpleNamespace(membership=None)

    monkeypatch.setattr(process, "LiveDriver", drive)
    chosen = choice.scheduler(SETTINGS, "batch", "seed")
    process.SupervisedScheduler(
        "url", "lab", member="batch/x", scheduler=chosen, lease_ms=300, pipelined=False
    )._register()
    driver = (cell, chosen, "batch/x", since_1970, time.sleep), {"lease_ms": 300, "pipelined": False}
    assert seen == [("url", "lab"), driver]
    assert (chosen.mode, chosen.detection, chosen.jobs_per_call) == (Mode.GANG, Detection.COARSE, 7)
    assert isinstance(chosen.preemption, PrecedencePreemption)


def test_arguments_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(process.SupervisedScheduler, "run", lambda self: seen.extend([self]))
    chosen = choice.scheduler({}, "batch", "seed")
    assert process.run_member("url", "lab", "batch/x", chosen, 300) is None
    assert [(each.url, each.cell, each.member, each.scheduler, each.lease_ms) for each in seen] == [
        ("url", "lab", "batch/x", chosen, 300)
    ]


def test_settings_of_a_simulated_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def make(*given: Any, **named: Any) -> Any:
        seen.append((given, named))
        return SimpleNamespace(leave=lambda: None)

    monkeypatch.delenv("OMEGA_METRICS", raising=False)
    monkeypatch.setattr(simulated, "SimulatedExecutor", make)
    monkeypatch.setattr(simulated, "_play", lambda _, stop, nonce: seen.append((stop, len(nonce))))
    cell: Any = SimpleNamespace(name="lab")
    simulated.run_simulated_executor(cell, "x", 2.5, "stop", 1_200)  # type: ignore[arg-type]
    assert seen == [((cell, "x", since_1970), {"speed": 2.5, "lease_ms": 1_200}), ("stop", 32)]


def test_what_a_supervisor_passes_to_a_member(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: dict[str, str] = {}
    monkeypatch.delenv("OMEGA_METRICS", raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, env, **__: (seen.update(env), SimpleNamespace(pid=1))[1])
    group = ProcessSupervisor(
        "unix:///s", "lab", tmp_path / "logs", lease_ms=300, speed=2.5,
        settings={"OMEGA_MODE": "gang", "OMEGA_SCHEDULER": "warm"}, choices={"batch": {"OMEGA_SCHEDULER": "cold"}},
    )  # fmt: skip
    group.start("batch/x")
    names = {"OMEGA_CELL": "lab", "OMEGA_MEMBER": "batch/x", "OMEGA_LEASE_MS": "300", "OMEGA_SPEED": "2.5"}
    assert (names | {"OMEGA_MODE": "gang", "OMEGA_SCHEDULER": "cold"}).items() <= seen.items()


def test_when_a_job_is_retried_and_given_up() -> None:
    policy = RetryPolicy(seconds=2.0, attempts=5, fruitless=3)
    tried: Any = SimpleNamespace(attempts=3, placed=True, not_before=0.0)
    assert (policy.next_step(tried, 10.0), tried.not_before) == (Step.RETRY, 12.0)
    tried.placed = False
    assert policy.next_step(tried, 10.0) is Step.ABANDON
    tried.attempts, tried.placed = 5, True
    assert policy.next_step(tried, 10.0) is Step.ABANDON


@pytest.mark.parametrize("name", ["fit", "balance", "preferred", "near", "apart", "precedence"])
def test_a_weight_of_a_placement_counts_for_its_criterion(name: str) -> None:
    snapshot = site({"rack": "a", "ssd": "1"}, {"rack": "b"})
    snapshot.others = {"db": {1: 1}}
    wanted = asking({"constraints": [{"prefer": "has ssd", "weight": 90}], "near": {"job": "db", "domain": "rack"}})
    weights = {"fit": 0.1, "balance": 0.2, "preferred": 3.0, "near": 4.0, "apart": 5.0, "precedence": 6.0}
    snapshot.disturbs = np.array([0.25, 0.5])

    def points(**changed: float) -> dict[str, Any]:
        policy = ServicePlacement(**weights | changed)  # type: ignore[arg-type]
        return policy.scores(wanted, 0, snapshot, np.arange(2), {0: 1})

    before, after = points(), points(**{name: 2 * weights[name]})
    assert list(before) == ["fit", "balance", "preferred", "near", "precedence", "apart"]
    for criterion, of in before.items():
        assert np.allclose(after[criterion], 2 * of if criterion == name else of), criterion
        assert np.any(of)


def test_deductions_for_spreading_keep_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    made = Spreading

    def make(*given: Any) -> Any:
        seen.append(made(*given))
        return seen[-1]

    monkeypatch.setattr(service, "Spreading", make)
    ServicePlacement(apart=3.0, spread=4.0).place(asking({}, 2), site({}, {}), Random(1))
    assert [(each.apart, each.spread) for each in seen] == [(3.0, 4.0)]
