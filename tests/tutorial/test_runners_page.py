"""docs/runners.md is true: its job file can be submitted, its runners do what it says."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from omega.cellstate.resources import Dimensions
from omega.jobfile.reader import JobFile, load
from omega.live.runners.runner import RunnerTask
from omega.schedulers import registry
from tests.tutorial.page import DOCS, blocks

PAGE = (DOCS / "runners.md").read_text(encoding="utf-8")


def test_the_job_file_is_valid_and_names_a_runner() -> None:
    text = next(text for language, text in blocks("runners.md") if language == "yaml")
    (job,) = load([JobFile("runners.md", text)], Dimensions(), lambda: "a1")
    assert job.groups[0].spec["runner"] in registry.offers("runner")


def test_the_page_names_every_runner_of_omega() -> None:
    for name, entry in registry.offers("runner").items():
        assert f"`{name}`" in PAGE or entry.package != registry.OWN


def test_the_runners_of_the_page(tmp_path: Path) -> None:
    place = tmp_path / "house.py"
    place.write_text(next(text for language, text in blocks("runners.md") if language == "python"))
    spec = spec_from_file_location("house", place)
    assert spec is not None
    assert spec.loader is not None
    house = module_from_spec(spec)
    spec.loader.exec_module(house)
    task = RunnerTask(
        name="n", command=["a", "b"], health=["h"], environment={"A": "1"}, inherited={"B": "2"}, directory="/d",
        image="i", uid=1, gid=1, cpu_millicores=0, memory_bytes=0,
    )  # fmt: skip
    nice = house.Nice()
    assert nice.available() == "1"
    made = nice.start(task)
    assert (list(made.command), list(made.health)) == (["nice", "-n", "19", "a", "b"], ["nice", "-n", "19", "h"])
    assert made.environment == {"A": "1", "B": "2"}
    assert house.Gpu().options == ("--gpus", "all")
