"""What an agent answers to a request for output, from the files of its tasks."""

from pathlib import Path

import pytest

from omega.cellstate.tasks import MOST_OUTPUT, OutputPart, OutputRequest
from omega.live.agent.output_answers import MOST_ANSWERS, answer_requests, output_part
from omega.live.agent.places import AgentPlaces, PlacementKey


@pytest.fixture
def places(tmp_path: Path) -> AgentPlaces:
    made = AgentPlaces(tmp_path, "main", "h1")
    made.make()
    for placement, files in ((3, {"stdout.0": b"old"}), (12, {"stdout.0": b"0123456789", "stdout.10": b"abc"})):
        place = made.task(PlacementKey("j", 0, 2, placement))
        place.mkdir()
        for name, data in files.items():
            (place / name).write_bytes(data)
    return made


def _ask(places: AgentPlaces, start: int, stream: str = "stdout", task: int = 2) -> OutputPart:
    return output_part(places, OutputRequest("ab" * 8, "j", 0, task, stream, start))


def test_output_is_that_of_the_newest_placement_across_its_files(places: AgentPlaces) -> None:
    assert _ask(places, 0) == OutputPart(12, 0, b"0123456789abc")
    assert _ask(places, 8) == OutputPart(12, 8, b"89abc")
    assert _ask(places, 11) == OutputPart(12, 11, b"bc")
    assert _ask(places, -5) == OutputPart(12, 8, b"89abc")
    assert _ask(places, -500) == OutputPart(12, 0, b"0123456789abc")


def test_an_answer_names_the_first_byte_that_is_kept(places: AgentPlaces) -> None:
    (places.task(PlacementKey("j", 0, 2, 12)) / "stdout.0").unlink()
    assert _ask(places, 2) == OutputPart(12, 10, b"abc")


def test_an_answer_is_bounded(places: AgentPlaces) -> None:
    with (places.task(PlacementKey("j", 0, 2, 12)) / "stdout.10").open("ab") as file:
        file.write(b"x" * MOST_OUTPUT)
    assert _ask(places, 5) == OutputPart(12, 5, b"56789abc" + b"x" * (MOST_OUTPUT - 8))


def test_output_beyond_the_end_is_empty(places: AgentPlaces) -> None:
    assert _ask(places, 13) == OutputPart(12, 13, b"")
    assert _ask(places, 0, stream="stderr") == OutputPart(12, 0, b"")


def test_a_task_that_never_ran_here_has_no_placement(places: AgentPlaces) -> None:
    assert _ask(places, 0, task=1) == OutputPart(0, 0, b"")


def test_of_many_requests_the_newest_are_answered_and_strange_ones_are_left_out(places: AgentPlaces) -> None:
    class Cell:
        def __init__(self) -> None:
            self.answers: dict[str, OutputPart] = {}

        def answer_output(self, name: str, part: OutputPart) -> None:
            self.answers[name] = part

    cell = Cell()
    asked = [OutputRequest(f"{i:08x}", "j", 0, 2, "stdout", 0).message() for i in range(MOST_ANSWERS + 3)]
    answer_requests(cell, places, ["! 7", "- 1 2 3", *asked, "? of another version"])  # type: ignore[arg-type]
    assert sorted(cell.answers) == [f"{i:08x}" for i in range(4, MOST_ANSWERS + 3)]


def test_an_answer_ends_where_output_was_dropped(places: AgentPlaces) -> None:
    (places.task(PlacementKey("j", 0, 2, 12)) / "stdout.20").write_bytes(b"xyz")
    assert _ask(places, 0) == OutputPart(12, 0, b"0123456789abc")
    assert _ask(places, 13) == OutputPart(12, 20, b"xyz")
    assert _ask(places, -500) == OutputPart(12, 20, b"xyz"), "the end, without a hole"
