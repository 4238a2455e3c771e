"""Stores with TLS: certificates are verified, and what is wrong with one is reported at once."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from omega.cellstate import server
from omega.cellstate.errors import StoreError, Unreachable, Unsuitable
from omega.cellstate.store import connect_cell, create_cell
from tests import certificates
from tests.certificates import Certificates
from tests.cli.conftest import Omega
from tests.server_groups import single
from tests.tls_front import tls_front

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def port(store_url: str, made: Certificates) -> Iterator[int]:
    with tls_front(store_url.removeprefix("unix://"), made) as port:
        yield port


def test_a_cell_over_tls(port: int, made: Certificates) -> None:
    url = f"rediss://127.0.0.1:{port}?ssl_ca_certs={made.authority}"
    with closing(create_cell(server.connect(url), "encrypted", url=url)):
        assert Omega(url, "encrypted").json("cell", "status")["cell"] == "encrypted"
    with closing(connect_cell(url.replace("rediss", "valkeys"), "encrypted")) as cell:
        cell.delete()


@pytest.mark.parametrize("scheme", ["rediss", "rediss+sentinel", "rediss+cluster"])
@pytest.mark.parametrize("what", ["authority", "name"])
def test_a_certificate_that_is_not_trusted(
    what: str, scheme: str, port: int, made: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a server whose certificate is of another authority or another name."""
    monkeypatch.setattr(server, "WAIT_SECONDS", 30.0)
    authority = made.authority if what == "name" else certificates.make(tmp_path).authority
    host = "localhost.localdomain" if what == "name" else "127.0.0.1"
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("127.0.0.1", port))])
    url = f"{scheme}://{host}:{port}/{'omega' * (scheme == 'rediss+sentinel')}?ssl_ca_certs={authority}"
    reason = "ostname mismatch" if what == "name" else "self.signed certificate|unable to get local issuer"
    with pytest.raises(StoreError, match=f"no encrypted connection.*({reason}).*; check ssl_ca_certs"):
        server.server_info(url)


def test_a_file_of_certificates_that_is_missing() -> None:
    with pytest.raises(Unsuitable, match="ssl_ca_certs names no file that can be read"):
        server.connect("rediss+cluster://127.0.0.1:1?ssl_ca_certs=/no/such/file")


def test_tls_on_one_side_only(port: int) -> None:
    with (
        single() as plain,
        pytest.raises(Unreachable, match="check that its machine is up, that its port has TLS, and"),
    ):
        server.server_info(plain.url_of().replace("redis", "rediss"), timeout=0.5)
    with pytest.raises(Unreachable, match=f"no answer from the store at redis://127.0.0.1:{port}: "):
        server.server_info(f"redis://127.0.0.1:{port}", timeout=2.0)
