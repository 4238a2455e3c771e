"""Jobs of SWIM: read from files, as jobs of a slot cluster, and the published samples where they are."""

import gzip
from pathlib import Path
from random import Random

import pytest

from omega.cellstate.errors import BadInput
from omega.experiments.slot_runs import BINS
from omega.simulation.slot_swim import BLOCK, maps_by_bins, maps_by_size, slot_jobs
from omega.simulation.slots import SlotCluster, SlotSimulation
from omega.traces.swim import SwimJob, read_swim

LINES = f"a\t10\t1\t{BLOCK + 1}\t0\t5\tshared\t\nb\t12\t2\t0\t0\t5\tshared\t\nc\t13\t1\t{5 * BLOCK}\t0\t0\t\t\n"
SMALL = SlotCluster(machines=6, racks=2, map_slots=1, reduce_slots=0)
TIMES = (1.0, 2.0)


def test_files_are_read_plain_and_compressed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.tsv", tmp_path / "a.tsv.gz"
    plain.write_text(LINES)
    packed.write_bytes(gzip.compress(LINES.encode()))
    found = read_swim(plain)
    assert found == read_swim(packed)
    assert found[0] == SwimJob("a", 10.0, BLOCK + 1, "shared")
    assert maps_by_size(found) == [2, 1, 5]
    assert maps_by_size(found, most=4) == [2, 1, 4]


@pytest.mark.parametrize(
    "line", ["a\t1\t1\t2\t3", "a\tsoon\t1\t2\t3\t4", "a\t-1\t1\t2\t3\t4", "a\t1\t1\t-2\t3\t4", "a"]
)
def test_other_lines_are_refused_by_number(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.tsv").write_text(f"a\t1\t1\t2\t3\t4\n{line}\n")
    with pytest.raises(BadInput, match=r"tsv:2: (\d columns|.* is not a number)"):
        read_swim(tmp_path / "a.tsv")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_text("no archive")
    for name in ("a.gz", "none.tsv"):
        with pytest.raises(BadInput, match="cannot be read"):
            read_swim(tmp_path / name)


def test_jobs_with_one_path_read_the_same_blocks() -> None:
    jobs = [SwimJob("a", 10.0, 0, "x"), SwimJob("b", 12.0, 0, "x"), SwimJob("c", 13.0, 0)]
    one, two, other = slot_jobs(jobs, [2, 3, 2], SMALL, 2, TIMES, Random(1))
    assert two.blocks[:2] == one.blocks
    assert other.blocks != one.blocks
    assert [spec.at for spec in (one, two, other)] == [0.0, 2.0, 3.0]
    assert SlotSimulation(SMALL, [one, two, other]).run().launched == 7


def test_maps_follow_the_bins_in_order_of_size() -> None:
    jobs = [SwimJob(f"j{size}", 0.0, size) for size in (5, 1, 9, 7)]
    assert maps_by_bins(jobs, [(1, 50), (8, 25), (40, 25)]) == [1, 1, 40, 8]


@pytest.mark.parametrize(
    "name", ["FB-2009_samples_24_times_1hr_0.tsv.gz", "FB-2010_samples_24_times_1hr_withInputPaths_first500.tsv.gz"]
)
def test_the_published_samples_have_the_maps_of_the_paper(shared_directory: Path, name: str) -> None:
    path = shared_directory / "traces/swim-facebook" / name
    if not path.exists():
        pytest.skip(f"no sample of SWIM at {path}")
    jobs = read_swim(path)
    maps = maps_by_bins(jobs, BINS)
    assert sum(count == 1 for count in maps) == pytest.approx(0.38 * len(jobs), abs=1)
    assert sum(count == 1 for count in maps_by_size(jobs)) > 0.6 * len(jobs), "as bytes alone would give"
    assert any(job.path for job in jobs) == ("Paths" in name)
