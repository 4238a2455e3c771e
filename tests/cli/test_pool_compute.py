"""`omega pool compute`: the JSON document that scripts rely on, the table, errors in one line; no store."""

import json
from pathlib import Path

import pytest

from omega.pools import METHODS
from tests.cli.conftest import Omega

TREE = {
    "total_resources": {"cpu": 24},
    "tree": [
        {"id": "a", "parent": "<Root>", "kind": "pool"},
        {"id": "j", "parent": "a", "kind": "operation", "demand": {"cpu": 12}},
        {"id": "k", "parent": "<Root>", "kind": "job", "demand": {"cpu": 24}, "usage": {"cpu": 3}},
    ],
    "options": {},
    "seconds_since_previous_update": None,
}


@pytest.fixture
def alone() -> Omega:
    return Omega(None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(TREE))
    return path


def test_the_document_has_the_agreed_fields(alone: Omega, file: Path) -> None:
    found = alone.json("pool", "compute", str(file))["elements"]
    agreed = {"fair_share", "demand_share", "strong", "integral", "weight_proportional", "satisfaction"}
    assert all(agreed <= set(element) for element in found.values())
    assert found["j"]["fair_share"] == {"cpu": 0.5}
    assert found["k"]["satisfaction"] == pytest.approx(0.25)
    assert {"promised", "estimated_guarantee", "limits_share", "volume", "local_satisfaction"} <= set(found["a"])


@pytest.mark.parametrize("method", METHODS)
def test_each_method_answers_for_every_element(alone: Omega, file: Path, method: str) -> None:
    found = alone.json("pool", "compute", str(file), "--method", method)
    assert found["method"] == method
    assert set(found["elements"]) == {"<Root>", "a", "j", "k"}
    assert found["elements"]["<Root>"]["fair_share"]["cpu"] == pytest.approx(1.0, abs=1e-3)


def test_yaml_is_read_as_well(alone: Omega, tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text("total_resources: {cpu: 4}\ntree:\n  - {id: j, kind: job, demand: {cpu: 1}}\n")
    assert alone.json("pool", "compute", str(path))["elements"]["j"]["fair_share"] == {"cpu": 0.25}


def test_errors_name_the_file_and_the_field(alone: Omega, tmp_path: Path) -> None:
    path = tmp_path / "tree.json"
    path.write_text(json.dumps({"total_resources": {"cpu": 4}, "tree": [{"id": "a", "kind": "pond"}]}))
    said = alone.error("pool", "compute", str(path))
    assert "tree.0.kind" in said
    assert str(path) in said
