"""`omega scheduler test`: contracts and mutants of the policies in a file."""

from pathlib import Path

import pytest

from omega.live.contract_workers import ContractWorkers
from tests.cli.conftest import Omega
from tests.tutorial.page import BLOCK, DOCS

PAGE = DOCS.parent / "README.md"


@pytest.fixture
def omega() -> Omega:
    """The program; nothing here needs a store."""
    return Omega(None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The scheduler of README.md."""
    path = tmp_path / "mine.py"
    source = next(text for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if language == "python")
    path.write_text(source, encoding="utf-8")
    return path


@pytest.mark.chaos
def test_contracts_and_mutants_of_a_file(omega: Omega, file: Path) -> None:
    words = ("scheduler", "test", str(file), "--mutants", "4", "--seed", "1", "--workers", "1")
    found = omega.json(*words)
    assert found["ok"] is True
    assert [(each["subject"], each["axis"], each["failures"]) for each in found["contracts"]] == [
        ("Last", "placement", []),
        ("scheduler last", "scheduler", []),
    ]
    assert len(found["mutants"]) == 4
    assert {"line", "before", "after", "found", "error"} == set(found["mutants"][0])
    assert sum(each["found"] for each in found["mutants"]) >= 3


@pytest.mark.chaos
def test_a_contract_that_does_not_hold(omega: Omega, file: Path) -> None:
    file.write_text(file.read_text(encoding="utf-8").replace("snapshot.take(machine, need, count)", "pass"))
    text = omega.text("scheduler", "test", str(file), code=1)
    assert "exactly the claims are deducted: call snapshot.take for each" in text
    assert "survive" not in text, "mutants of a file that fails prove nothing"


@pytest.mark.chaos
def test_a_mutant_without_end_is_found(tmp_path: Path) -> None:
    """Its process is killed, and the next mutant gets another one."""
    source = "import omega\nclass Slow(omega.Ordering):\n    def key(self, work):\n        return work.submitted\n"
    path, done = tmp_path / "slow.py", list[int]()
    with ContractWorkers(path, 1) as pool:
        pool.limit = 1.0
        (error,) = pool.found([source.replace("return", "while True: ")], lambda: done.append(1))
        assert "does not end within 1 s" in error
        pool.limit = 600.0
        assert pool.found([source], lambda: done.append(2)) == [""]
    assert done == [1, 2]


def test_what_cannot_be_tested(omega: Omega, tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    assert "has no policy and no scheduler" in omega.error("scheduler", "test", str(path))
    path.write_text("import nothing_of_this_name\n")
    assert "cannot be imported: ModuleNotFoundError" in omega.error("scheduler", "test", str(path))
    path.write_text("def (:\n")
    assert "cannot be read as Python" in omega.error("scheduler", "test", str(path))
    path.write_text("import omega\nclass Needs(omega.Ordering):\n    def __init__(self, much): self.much = much\n")
    assert "cannot be made without arguments" in omega.error("scheduler", "test", str(path))
