"""The installed servers of the table in docs/store-addresses.md; `make chaos` shows the others, and TLS to groups."""

from pathlib import Path

import pytest

from tests.conftest import ROOT, absent
from tests.integration.supported import TLS, rows, running
from tests.server_programs import Absent, installed

pytestmark = pytest.mark.server


@pytest.mark.parametrize(
    ("name", "group", "protocol"),
    [("Redis 6.2", "one server", 2), ("Valkey 9.1", "Sentinels", 3), ("Valkey 9.1", "Cluster", 2)],
)
@pytest.mark.chaos
def test_an_installed_server_is_supported(name: str, group: str, protocol: int, tmp_path: Path) -> None:
    try:
        found = installed(name)
    except Absent as error:
        absent(str(error))
    assert found.tls == TLS.get(name, False)
    with running(found, group, None, users=True) as trial:
        trial.prepare(tmp_path, protocol)
        trial.show(tmp_path / "shown")


def test_the_page_has_the_servers_of_the_tests() -> None:
    page = (ROOT / "docs" / "store-addresses.md").read_text().split("\n")
    first = page.index("| server | TLS | tested from |") + 2
    table = list(rows())
    assert page[first : first + len(table) + 1] == [*table, ""]
