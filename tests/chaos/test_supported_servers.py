"""Every server of the table in docs/store-addresses.md, downloaded if possible: its groups, protocols, TLS, users."""

from pathlib import Path

import pytest

from tests import certificates
from tests.certificates import Certificates
from tests.integration.supported import GROUPS, TLS, running
from tests.server_programs import SOURCES, WITH_TLS, Absent, program

pytestmark = [pytest.mark.chaos, pytest.mark.server]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("users", [False, True], ids=["open", "users"])
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", SOURCES)
def test_a_server_is_supported(
    name: str, group: str, encrypted: bool, users: bool, tls: Certificates, tmp_path: Path
) -> None:
    if encrypted and not TLS.get(name):
        pytest.skip(f"{name} from {SOURCES[name][0]} was built without TLS")
    if not encrypted and name.endswith(WITH_TLS):
        pytest.skip("another program of this version shows it")
    try:
        found = program(name)
    except Absent as error:
        pytest.skip(f"{name}: {error}")
    assert found.tls == TLS.get(name, False)
    with running(found, group, tls if encrypted else None, users=users) as trial:
        for protocol in (2, 3):
            trial.prepare(tmp_path, protocol)
            trial.show(tmp_path / str(protocol))
