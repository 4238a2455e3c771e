"""Mutants of the parts that decide, run against their tests: ``python -m tests.chaos.mutation SEED COUNT``.

A mutant is one file with one place changed by one operator: a comparison flipped, a bound moved by one, ``and`` for
``or``, a constant raised, a truth value negated, a statement removed. Mutants are drawn from a seeded generator
and run in a copy of the tree. Those that all tests pass with are printed as survivors.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

TREE = Path(__file__).parents[2]
SECONDS = 180
"""A mutant whose tests take longer counts as found: it loops."""
VERDICTS = ("tests/contract/test_verdicts.py", "tests/contract/test_placements.py", "tests/contract/test_limits.py")
LEASES = ("tests/contract/test_agents.py", "tests/contract/test_members.py", "tests/contract/test_losses.py")
AUDIT = ("tests/unit/cellstate/audit",)
TWIN = ("tests/contract", "tests/property/test_twin.py", "tests/property/test_simulated.py", "tests/unit/cellstate")
TESTS: dict[str, tuple[str, ...]] = {
    "cellstate/lua/commit.lua": VERDICTS, "cellstate/memory/commit.py": VERDICTS,
    "cellstate/lua/parts/leases.lua": LEASES, "cellstate/lua/lapse.lua": LEASES, "cellstate/lua/beat.lua": LEASES,
    "cellstate/memory/agents.py": LEASES, "cellstate/audit/rules.py": AUDIT, "cellstate/audit/replay.py": AUDIT,
    "cellstate/audit/books.py": AUDIT, "schedulers/rolling.py": ("tests/unit/schedulers/test_rolling.py",),
    "cellstate/memory/losses.py": LEASES, "cellstate/memory/tasks.py": TWIN, "cellstate/memory/simulated.py": TWIN,
}  # fmt: skip
"""The files, and the tests of each."""
OPERATORS: tuple[tuple[str, str], ...] = (
    (r" <= ", " < "), (r" >= ", " > "), (r" < ", " <= "), (r" > ", " >= "), (r" == ", " != "), (r" [!~]= ", " == "),
    (r"\band\b", "or"), (r"\bor\b", "and"), (r" \+ 1\b", ""), (r" - 1\b", ""), (r"(?<= )0(?=[\s,)])", "1"),
    (r"\bTrue\b", "False"), (r"\bFalse\b", "True"), (r"\btrue\b", "false"), (r"\bfalse\b", "true"),
    (r"\bnot (?=\w)", ""), (r"^( +)(?:self\.)?\w+\(.*\)$", r"\1"),
)  # fmt: skip


class Mutant(NamedTuple):
    """A line of a file, as it was and as it is."""

    path: str
    line: int
    before: str
    after: str


def mutants(path: str) -> Iterator[Mutant]:
    """Yield every mutant of a file; comments and documentation are left alone."""
    quoted = False
    for number, line in enumerate((TREE / path).read_text().splitlines()):
        marks = line.count('"""')
        if quoted or marks or line.lstrip().startswith(("#", "--")):
            quoted ^= marks == 1
            continue
        for pattern, other in OPERATORS:
            for found in re.finditer(pattern, line):
                now = line[: found.start()] + found.expand(other) + line[found.end() :]
                if path.endswith(".py") and not now.strip():
                    now = line[: len(line) - len(line.lstrip())] + "pass"
                yield Mutant(path, number, line, now)


def survives(mutant: Mutant, tree: Path) -> bool:
    """Whether all tests of its file pass with a mutant in a copy of the tree."""
    file = tree / mutant.path
    text = file.read_text()
    lines = text.splitlines()
    lines[mutant.line] = mutant.after
    file.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS[mutant.path]]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    finally:
        file.write_text(text)
    return done.returncode == 0


def survivors(seed: str, count: int) -> Iterator[Mutant]:
    """Draw mutants and yield those that survive."""
    every = [mutant for path in TESTS for mutant in mutants(path)]
    with TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=TREE, capture_output=True, check=True).stdout
        subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
        chosen = Random(seed).sample(every, count)
        for path in sorted({mutant.path for mutant in chosen}):
            line = (TREE / path).read_text().splitlines()[0]
            if not survives(Mutant(path, 0, line, line), Path(folder)):
                raise SystemExit(f"{path}: its tests fail without a mutant; run them")
        for mutant in chosen:
            if survives(mutant, Path(folder)):
                yield mutant


if __name__ == "__main__":
    for survivor in survivors(sys.argv[1], int(sys.argv[2])):
        before, after = survivor.before.strip(), survivor.after.strip()
        sys.stdout.write(f"{survivor.path}:{survivor.line + 1}: {before} -> {after}\n")
        sys.stdout.flush()
