"""The published trace, read more than once: the same jobs again, and the tables that are shipped."""

from pathlib import Path

import pytest

from benchmarks.tables import make_google2011_tables
from omega.traces import TraceOptions, read_trace
from omega.workload import quantiles as tables

pytestmark = pytest.mark.chaos


@pytest.fixture(scope="module")
def directory(shared_directory: Path) -> Path:
    found = shared_directory / "traces" / "google-2011"
    if not found.is_dir():
        pytest.skip(f"no trace at {found}")
    return found


def test_jobs_are_the_same_again(directory: Path) -> None:
    options = [TraceOptions(residents="thin", tasks=10_000, follow_seconds=follow) for follow in (25_000, 0)]
    first, again = (read_trace(directory, each).workload for each in options)
    assert [a.job.id for a in again.arrivals] == [a.job.id for a in first.arrivals]
    assert [a.job.id for a in again.residents] == [a.job.id for a in first.residents]


def test_the_shipped_tables_are_those_of_the_trace(directory: Path, tmp_path: Path) -> None:
    make_google2011_tables.main(directory, tmp_path)
    shipped = Path(tables.__file__).parent / "tables"
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in shipped.glob("*.csv")}
    for path in tmp_path.iterdir():
        assert path.read_text() == (shipped / path.name).read_text(), path.name
