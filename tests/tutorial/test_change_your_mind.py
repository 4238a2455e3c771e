"""A job before and after it is submitted: planned, held, resized, released. Read from top to bottom."""

from pathlib import Path

import pytest

from tests.cli.conftest import Omega

pytestmark = pytest.mark.server


def test_change_your_mind(store_url: str, tmp_path: Path) -> None:
    omega = Omega(store_url, "second-thoughts")
    omega.run("cell", "create", "second-thoughts", "--machines", "10", "--cpu", "4", "--memory", "8Gi")
    file = tmp_path / "crawl.yaml"
    file.write_text("{name: crawl, tasks: [{name: fetch, count: 60, resources: {cpu: 1}}]}")

    # A dry run: forty of sixty tasks would find room, and nothing is submitted.
    plan = omega.json("job", "plan", str(file), code=1)
    assert [(job["placed"], job["unplaced"]) for job in plan["jobs"]] == [(40, 20)]
    assert omega.json("job", "list")["jobs"] == []

    # Submitted but held: no scheduler touches it until it is released.
    omega.run("job", "submit", "--detach", "--hold", str(file))
    assert omega.json("job", "status", "crawl")["reason"] == "HELD"

    # Sixty are too many. The index makes sure that nobody else changed the job in between.
    index = omega.json("job", "status", "crawl")["modify_index"]
    omega.run("job", "resize", "crawl", "40", "--check-index", str(index))
    assert "modify index" in omega.error("job", "resize", "crawl", "50", "--check-index", str(index))
    omega.run("job", "release", "crawl")
    assert omega.json("job", "status", "crawl")["counts"]["queued"] == 40
    omega.run("cell", "delete", "--yes")
