"""Store and cell of the environment: the client and the commands read the same settings."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest

import omega as package
from omega.cellstate.errors import BadInput
from omega.cellstate.redis import RedisCell
from omega.cli.app import App
from tests.cli.conftest import Omega

NAMES = ("OMEGA_STORE", "OMEGA_STORE_FILE", "OMEGA_CELL")
AWAY = "unix:///nowhere/store.sock"


@pytest.fixture
def store_file(tmp_path: Path, store_url: str) -> Path:
    """A file with the URL of the store, for its owner only."""
    path = tmp_path / "store"
    path.write_text(f"{store_url}\n")
    path.chmod(0o600)
    return path


def set_to(monkeypatch: pytest.MonkeyPatch, values: Mapping[str, str]) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in values.items():
        monkeypatch.setenv(name, value)


@pytest.mark.server
def test_the_client_uses_the_store_of_the_environments_file(
    cell: RedisCell, store_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to(monkeypatch, {"OMEGA_STORE_FILE": str(store_file), "OMEGA_CELL": cell.name})
    with package.Client() as client:
        client.submit({"name": "a", "tasks": [{}]})
    assert cell.jobs.live_count() == 1


@pytest.mark.server
def test_the_client_takes_a_store_file(cell: RedisCell, store_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_to(monkeypatch, {"OMEGA_STORE": AWAY, "OMEGA_CELL": "other"})
    with package.Client(cell=cell.name, store_file=store_file) as client:
        assert client.cell_status()["cell"] == cell.name


@pytest.mark.parametrize("kind", [package.Client, package.AsyncClient])
def test_what_the_client_refuses(
    kind: type[package.Client] | type[package.AsyncClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="mutually exclusive"):
        kind(AWAY, store_file=tmp_path / "store")
    (tmp_path / "open").write_text(AWAY)
    (tmp_path / "open").chmod(0o644)
    with pytest.raises(BadInput, match="open to other users"):
        kind(store_file=tmp_path / "open")
    set_to(monkeypatch, {"OMEGA_STORE_FILE": str(tmp_path / "none")})
    with pytest.raises(BadInput, match="no such file"):
        kind()


@pytest.mark.parametrize("given", list(product((None, "", AWAY), (None, "", "FILE"), (None, "", "lab"))))
def test_commands_and_client_choose_alike(
    given: tuple[str | None, ...], store_file: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ((name, str(store_file) if text == "FILE" else text) for name, text in zip(NAMES, given, strict=True))
    set_to(monkeypatch, {name: text for name, text in texts if text is not None})
    store, file, cell = given
    expected = (store or (store_url if file else None), cell or None)
    app, client = App(), package.Client()
    assert (app.store, app.cell_name) == expected
    assert (client._connections._store, client._connections._cell) == expected


@pytest.mark.server
def test_an_option_goes_before_what_the_environment_names(
    omega: Omega, cell: RedisCell, store_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the environment names a file that cannot be read."""
    set_to(monkeypatch, {"OMEGA_STORE_FILE": "/nowhere"})
    words = ("cell", "status", cell.name, "--json")
    for option in (("--store", str(omega.url)), ("--store-file", str(store_file))):
        for typed in ((*option, *words), (*words, *option)):
            Omega(None).run(*typed)
    assert "no such file" in Omega(None).error(*words)
