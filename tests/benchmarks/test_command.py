"""``omega bench``: options reach the harness, its document comes back, errors are one line."""

import json
from typing import Any

import click.testing
import pytest

from benchmarks.command import harness
from omega.cli.main import omega


def run(*words: str, **environment: str) -> click.testing.Result:
    found: dict[str, str | None] = {"OMEGA_STORE": None, "OMEGA_CELL": None, **environment}
    return click.testing.CliRunner().invoke(omega, ["bench", *words], env=found)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What the harness was asked; it answers nothing."""
    calls: list[tuple[str, dict[str, Any]]] = []

    def start(module: str, settings: dict[str, Any]) -> tuple[int, str]:
        calls.append((module, settings))
        return 1, ""

    monkeypatch.setattr(harness, "_run", start)
    return calls


def test_lists_and_presets_reach_the_harness(asked: list[tuple[str, dict[str, Any]]]) -> None:
    run("conflict", "--batch", "1,2", "--detection", "fine,coarse", "--fullness", "0,0.9", "--gang", "--json")
    run("conflict", "--contended", "--repeat", "3", "--json")
    run("commit", "--size", "1,10", "--in-flight", "4", "--json")
    run("sync", "--part", "sync", "--json")
    assert [module for module, _ in asked] == ["conflict", "conflict", "commit", "place"]
    first, second, third, _ = (settings for _, settings in asked)
    assert first["batch"] == [1, 2]
    assert first["detection"] == ["fine", "coarse"]
    assert first["fullness"] == [0.0, 0.9]
    assert first["gang"] == [True]
    assert (second["preset"], second["repeat"]) == ("contended", 3)
    assert "gang" not in second
    assert (third["sizes"], third["per_call"]) == ([1, 10], 4)


def test_instructions_are_counted_before_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def start(module: str, settings: dict[str, Any]) -> tuple[int, str]:
        calls.append(module)
        return 0, json.dumps({"forms": [{"form": "packed", "per_job": 3, "place": 2, "end": 1}]})

    monkeypatch.setattr(harness, "_run", start)
    for part in ("commit", "conflict"):
        assert json.loads(run(part, "--instructions", "--json").stdout)["instructions"][0]["per_job"] == 3
        assert "instructions" not in json.loads(run(part, "--json").stdout)
    assert calls == ["instructions", "commit", "commit", "instructions", "conflict", "conflict"]


@pytest.mark.parametrize(
    "words",
    [
        ("commit", "--size", "0"),
        ("commit", "--size", "ten"),
        ("conflict", "--detection", "rough"),
        ("conflict", "--fullness", "1.5"),
        ("place", "--part", "speed"),
    ],
)
def test_wrong_usage_is_told(words: tuple[str, ...]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert words[1] in result.stderr


@pytest.mark.chaos
def test_the_json_document_is_the_harness_own() -> None:
    result = run("place", "--part", "placement", "--machines", "20", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert {row["machines"] for row in document["placement"]} == {20}


def test_an_error_of_the_harness_ends_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    result = run("conflict", "--need", "3")
    assert result.exit_code == 1
    assert result.stdout == ""
    said = capfd.readouterr().err
    assert said.startswith("error: need [3]")
    assert said.count("\n") == 1


def test_the_store_of_other_commands_is_not_measured(asked: list[tuple[str, dict[str, Any]]]) -> None:
    run("commit", OMEGA_STORE="redis://people")
    run("commit", "--store", "redis://test", OMEGA_STORE="redis://people")
    run("commit", "--store", "redis://test")
    assert [settings.get("store") for _, settings in asked] == [None, "redis://test", "redis://test"]


CONTENDED = {
    "batch": 4,
    "service": 0,
    "detection": "coarse",
    "commit": "gang",
    "fullness": 0.9,
    "gang": True,
    "pools": 60,
    "repeats": 5,
    "tasks_per_second": 1234.0,
    "gangs_per_second": 123.0,
    "conflict_fraction": 0.5,
    "server_cpu": 0.9,
    "spread": {"tasks_per_second": [1000.0, 2000.0], "conflict_fraction": [0.4, 0.6]},
}
ON = {
    "computer": {"processors": 2, "model": "test", "load": 0.1},
    "store": {
        "product": "valkey",
        "version": "9",
        "transport": "unix",
        "append_only": False,
        "own": True,
        "allocator": "libc",
    },
    "cell": {"machines": 10},
}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "commit": {
        "runs": [{
            "clients": 2, "size": 10, "claims_per_second": 5000, "transactions_per_second": 500, "ratio": 0.5,
            "ceiling_claims_per_second": 10000, "ceiling_kind": "plain", "spread": {"ratio": [0.4, 0.6]},
            "transactions_per_call": 8,
        }],
    },
    "conflict": {
        "medians": [CONTENDED],
        "comparisons": [{
            "of": "coarse ÷ fine", "commit": "gang", "conflict_fraction_ratio": 2.5, "spread": [2.0, 3.0], "pairs": 5,
        }],
        "chosen": {
            "tasks": 10, "groups": 1, "need": [100, 200], "duration_ms": 50, "jobs_per_call": 8, "seconds": 5.0,
        },
    },
    "place": {
        "placement": [{"policy": "BestFit", "machines": 1000, "tasks_per_job": 10, "p50_us": 10.0, "p99_us": 20.0}],
        "sync": [{"machines": 1000, "changed": 0, "milliseconds": 0.1, "spread": [0.1, 0.2]}],
        "memory": {
            "server": [
                {
                    "megabytes_per_100000": 4.5,
                    "tasks_per_job": 10,
                    "form": "spread",
                    "ids": "own",
                    "by_key": {"jobs": 3.5},
                }
            ],
            "scheduler": {"resident_mib": 50.0, "machines": 1000, "running_tasks": 100},
        },
    },
}  # a table # fmt: skip
SEEN = {
    "commit": ["5,000", "10,000", "0.50", "0.40", "plain", "8 transactions per round trip"],
    "conflict": ["coarse", "60", "1,234", "0.500", "coarse ÷ fine, gang: conflict fraction × 2.50", "100m cpu"],
    "place": [
        "BestFit",
        "20.0",
        "0.1",
        "4.5 MB per 100,000 running tasks in jobs of 10, on a machine each, ids of 12 characters (jobs 3.5)",
        "50.0 MiB",
    ],
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_people_get_tables(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(harness, "_run", lambda *_: (0, json.dumps(DOCUMENTS[name] | ON)))
    result = run(name)
    assert result.exit_code == 0, result.output
    for words in SEEN[name]:
        assert words in result.output
