"""A record that cannot be read is left out and named; no command ends in a traceback for it."""

from typing import Any

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, join

LISTS = (
    ("job", "list"),
    ("top", "--once"),
    ("machine", "list"),
    ("events",),
    ("scheduler", "list"),
    ("cell", "status"),
)


@pytest.mark.parametrize(
    ("key", "field", "record"),
    [
        ("jobs", "bad", b"no record"),
        ("jobs", "bad", b"\xff\xfe;1"),
        ("specs", "bad", b"\xc1"),
        ("static", "0", b"\xff"),
        ("kinds", "batch", b"1 2 3"),
        ("machines", "0", b"short"),
        ("schedulers", "batch/0", b"?"),
        ("stats", "batch/0", b"\x01"),
        ("runs", "0", b"what runs"),
    ],
)
def test_lists_leave_out_what_cannot_be_read(
    omega: Omega, cell: RedisCell, key: str, field: str, record: bytes
) -> None:
    join(cell, 2)
    for name in ("good", "bad"):
        cell.jobs.submit([JobSpec(name, name, "batch", (TaskGroup((1, 1), 1),))], 1, "ada")
    client: Any = cell.client
    client.hset(f"omega:1:{{{cell.name}}}:schedulers", "batch/0", "1 nonce 0\n")
    client.hset(f"omega:1:{{{cell.name}}}:{key}", field, record)
    for command in LISTS:
        omega.run(*command)
    listed = omega.run("job", "list")
    assert "good" in listed.stdout
    if key == "jobs":
        assert "bad" not in listed.stdout
        assert f"skipped an unreadable record of cell {cell.name}: jobs bad; run omega cell verify" in listed.stderr
        assert "its record cannot be read; see omega cell verify" in omega.error("job", "status", "bad")
    found = omega.json("cell", "verify", code=1)["violations"]
    assert f"{key} {field}" in {violation["where"] for violation in found}
