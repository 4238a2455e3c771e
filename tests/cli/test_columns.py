"""`--output NAME,…` on every list: fields of the JSON document as columns, or as JSON."""

from collections.abc import Callable

import pytest

from omega.cellstate.redis import RedisCell
from tests.cli.conftest import Omega, eventually, join


def test_fields_within_fields_in_the_order_asked(omega: Omega, cell: RedisCell) -> None:
    join(cell, 2)
    assert omega.text("machine", "list", "--output", "tasks,name,capacity.cpu").splitlines() == [
        "tasks  name  capacity.cpu",
        "    0  m0            4000",
        "    0  m1            4000",
    ]
    assert omega.json("machine", "list", "--columns", "name,capacity")["machines"][1] == {
        "name": "m1",
        "capacity": {"cpu": 4000, "memory": 4096},
    }


def test_of_every_list(omega: Omega, cell: RedisCell, at_work: Callable[..., None]) -> None:
    at_work(machines=1)
    omega.run("job", "run", "--name", "a", "--cpu", "1", "--duration", "0s")
    eventually(lambda: omega.json("job", "status", "a")["state"] == "finished")
    assert omega.text("job", "list", "-o", "name,state,counts.finished,user").split()[4:7] == ["a", "finished", "1"]
    assert omega.text("scheduler", "list", "-o", "member,state").split() == ["member", "state", "batch/0", "live"]
    assert [cell.name, "1"] in [line.split() for line in omega.text("cell", "list", "-o", "name,machines").splitlines()]
    assert omega.text("events", "-o", "kind,job", "--kind", "submit").split()[2] == "submit"
    omega.run("cell", "limits", "batch", "--jobs", "7")
    said = omega.text("cell", "limits", "-o", "kind,jobs.used,jobs.limit,resources.cpu.limit")
    assert said.split()[4:] == ["batch", "0", "7"]
    assert omega.json("cell", "limits", "-o", "kind")["limits"] == [{"kind": "batch"}]
    assert omega.text("scheduler", "policies", "ordering", "-o", "name,axis").split()[2:4] == ["fair-pools", "ordering"]
    assert omega.text("experiment", "list", "-o", "name,figure").splitlines()[0].split() == ["name", "figure"]


def test_a_column_there_is_not(omega: Omega, cell: RedisCell) -> None:
    join(cell, 1)
    assert omega.error("machine", "list", "-o", "name,capcity").startswith(
        "column 'capcity': did you mean capacity? known columns: name, index, "
    )
    assert omega.error("machine", "list", "-o", "zzz").startswith("column 'zzz': known columns: name, index, ")


@pytest.mark.parametrize("noun", ["job", "machine", "scheduler"])
def test_nothing_to_list_is_no_error(omega: Omega, noun: str) -> None:
    assert omega.text(noun, "list", "-o", "anything").split() == ["anything"]


def test_not_with_what_goes_on(omega: Omega) -> None:
    said = omega.error("events", "--follow", "-o", "kind", code=2)
    assert said.startswith("omega events: --output and --follow exclude each other; give one of them")
