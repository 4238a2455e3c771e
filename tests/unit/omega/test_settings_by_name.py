"""Every setting arrives under its own name: with values that all differ, two exchanged ones are seen."""

from dataclasses import asdict
from typing import Any

import pytest

from omega.cellstate.transaction import Detection, Mode
from omega.experiments import configuration
from omega.experiments.configuration import Configuration
from omega.schedulers.rolling import Policy
from omega.workload import presets


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
    Configuration(workload="A", seed=3, days=4.0, rate=5.0, machines=60, cpu=70, memory=80).drawn()
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
