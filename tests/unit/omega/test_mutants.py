"""The generator of mutants: what it changes, what it leaves alone, and that a seed draws the same ones."""

import ast
from pathlib import Path

import pytest

from omega.testing.mutants import drawn, mutants

EXAMPLES = sorted((Path(__file__).parents[3] / "docs" / "examples").glob("*.py"))
SOURCE = '''"""A file with – other letters."""

import omega

LEFT = 3 < 4


class Mine(omega.Placement):
    """A policy: 1 < 2."""

    warm: float = 1.0
    reads_attributes = True

    def place(self, work, snapshot, rng, most: int = 7):
        """Place 1 < 2."""
        for machine in range(snapshot.size):
            if machine < 5 and (
                machine > 2
            ):
                snapshot.take(machine, work.need(0), 1)  # “here”
        work.until = snapshot.now
        return rng.choice(max(most, 0))


class TestMine:
    policy = Mine(2 < 3)


def test_it():
    assert 1 < 2
'''


def changes(source: str) -> set[str]:
    return {each.after for each in mutants(source)}


def test_what_it_changes() -> None:
    found = changes(SOURCE)
    assert {
        "reads_attributes = False",
        "pass # “here”",
        "pass",
        'work.until = __import__("time").time()',
        'return __import__("random").choice(max(most, 0))',
        "return rng.choice(min(most, 0))",
        "return rng.choice(max(most, 1))",
        "if machine <= 5 and (",
        "if ((machine < 5)):",
        "if True:",
        "if False:",
    } <= found


def test_what_it_leaves_alone() -> None:
    lines = {each.line for each in mutants(SOURCE)}
    own = SOURCE.splitlines()
    assert {own[line - 1].strip() for line in lines} == {
        "reads_attributes = True",
        "if machine < 5 and (",
        "machine > 2",
        "snapshot.take(machine, work.need(0), 1)  # “here”",
        "work.until = snapshot.now",
        "return rng.choice(max(most, 0))",
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_mutant_is_python_with_one_line_changed(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    for each in mutants(source):
        ast.parse(each.source)
        before, after = source.splitlines(), each.source.splitlines()
        assert len(before) == len(after), "later lines keep their numbers"
        assert before[: each.line - 1] == after[: each.line - 1]
        assert each.before != each.after


def test_a_seed_draws_the_same_mutants() -> None:
    assert drawn(SOURCE, 5, seed=1) == drawn(SOURCE, 5, seed=1)
    assert drawn(SOURCE, 5, seed=1) != drawn(SOURCE, 5, seed=2)
    assert sorted(drawn(SOURCE, 10_000)) == sorted(mutants(SOURCE))
