"""``omega trace info``: what it prints of a trace of each format, and its errors."""

from pathlib import Path

import pytest

from tests.cli.conftest import Omega
from tests.contract.trace_samples import SAMPLES

OMEGA = Omega(None)


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("caches")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.mark.parametrize("name", list(SAMPLES))
def test_every_format_is_described(name: str, tmp_path: Path) -> None:
    path = str(SAMPLES[name].write(tmp_path))
    found = OMEGA.json("trace", "info", path)
    assert (found["format"], found["path"], found["figures"]) == (name, path, [])
    jobs = sum(of["jobs"] for of in found["arrivals"].values())
    assert 250 <= jobs <= SAMPLES[name].arrivals
    assert found["distributions"]["tasks per job"]["count"] == jobs
    assert found["distributions"]["seconds between jobs"]["count"] == jobs - 1
    assert len(found["requested"]) == 12
    assert bool(found["guessed"]) is (name != "omega"), "recordings have all that they need"
    assert all(defect["count"] > 0 and defect["what"] for defect in found["defects"])
    text = OMEGA.run("trace", "info", path).stdout
    for word in ("format", "machines", "arriving", "tasks per job", "cpu requested", "p99", *found["guessed"]):
        assert word in text
    for defect in found["defects"]:
        assert f"{defect['count']:,}" in text


def test_the_picture_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = str(SAMPLES["swf"].write(tmp_path))
    found = OMEGA.json("trace", "info", path, "--figures", str(tmp_path / "figures"))
    assert found["figures"] == [str(tmp_path / "figures" / f"trace{ending}") for ending in (".svg", ".png")]
    assert all(Path(each).stat().st_size > 1_000 for each in found["figures"])


def test_bad_rows_end_the_command_or_are_counted(tmp_path: Path) -> None:
    sample = SAMPLES["google-2011"]
    path = sample.write(tmp_path)
    (path / sample.file).write_bytes(b"no gzip")
    said = OMEGA.error("trace", "info", str(path))
    assert f"{path / sample.file}:1: cannot be read" in said
    found = OMEGA.json("trace", "info", str(path), "--skip-bad-rows")
    assert {"cut-short": 1}.items() <= {each["rule"]: each["count"] for each in found["defects"]}.items()
    for number in (0, 2):
        (path / "task_events" / f"part-0000{number}-of-00500.csv.gz").unlink()
    assert "fetch its first parts" in OMEGA.error("trace", "info", str(path), "--skip-bad-rows")


@pytest.mark.parametrize("name", ["nowhere", "empty", "x.parquet"])
def test_what_is_no_trace_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    assert str(tmp_path / name) in OMEGA.error("trace", "info", str(tmp_path / name))


def test_options_of_readers_are_those_of_the_command(tmp_path: Path) -> None:
    path = str(SAMPLES["google-2011"].write(tmp_path))
    found = OMEGA.json("trace", "info", path, "--residents", "keep", "--factor", "3", "--constraints", "synthetic")
    assert (found["facts"]["factor"], found["machines"]["capacity"]["cpu"]) == (3.0, 96_000)
    assert any("synthetic" in text for text in found["guessed"])
    few = OMEGA.json("trace", "info", path, "--tasks", "10")
    assert sum(of["tasks"] for of in few["arrivals"].values()) == 10


def test_parsed_columns_are_kept_unless_refused(tmp_path: Path, caches: Path) -> None:
    path = str(SAMPLES["google-2011"].write(tmp_path))
    first = OMEGA.json("trace", "info", path, "--no-cache")
    assert list(caches.rglob("*.npz")) == []
    assert OMEGA.json("trace", "info", path) == first
    assert len(list(caches.rglob("*.npz"))) == 1
    assert OMEGA.json("trace", "info", path) == first
