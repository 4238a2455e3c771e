"""The contracts find the faults that authors of policies make (faulty_plugins.py)."""

import sys
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from omega.cellstate.errors import BadInput
from omega.testing import OrderingContract, PlacementContract, PreemptionContract, SizingContract
from omega.testing.plugin import first_failure
from omega.testing.scenes import for_all
from tests.contract.faulty_plugins import DELAY, FAULTS, LAST, Fault
from tests.tiers import one_of
from tests.tutorial.page import BLOCK

ROOT = Path(__file__).parents[2]


def source_of(file: str) -> str:
    """The policies of a file; of a page its first file in Python."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return next(block for language, block in BLOCK.findall(text) if language == "python") if file == LAST else text


@pytest.fixture(autouse=True)
def _first_failure_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing example need not be made small; a file is imported from its folder, and forgotten."""
    quick = settings(for_all, phases=[Phase.generate], database=None, derandomize=True, report_multiple_bugs=False)
    for contract in (PlacementContract, OrderingContract, PreemptionContract, SizingContract):
        for name, test in vars(contract).items():
            if hasattr(test, "_hypothesis_internal_use_settings"):
                known = test._hypothesis_internal_use_settings
                monkeypatch.setattr(
                    getattr(contract, name),
                    "_hypothesis_internal_use_settings",
                    settings(quick, max_examples=known.max_examples),
                )
    monkeypatch.syspath_prepend(str((ROOT / DELAY).parent))
    monkeypatch.setattr(sys, "modules", sys.modules.copy())


def found(file: str, source: str) -> list[str]:
    """The first error that a contract finds; none for a file without faults."""
    path = ROOT / file if file != LAST else Path("mine.py")
    try:
        failure = first_failure(path, source)
    except BadInput as error:
        return [str(error)]
    return [] if failure is None else [failure.error]


@pytest.mark.chaos
@pytest.mark.parametrize("file", sorted({fault.file for fault in FAULTS}))
def test_the_policies_themselves_keep_their_contracts(file: str) -> None:
    assert found(file, source_of(file)) == []


@pytest.mark.parametrize(
    "fault",
    one_of(3, (pytest.param(fault, marks=pytest.mark.chaos) if fault.slow else fault for fault in FAULTS)),
    ids=[fault.name for fault in FAULTS],
)
def test_a_fault_is_found(fault: Fault) -> None:
    source = source_of(fault.file)
    assert fault.before in source, "the piece stands in the file"
    errors = found(fault.file, source.replace(fault.before, fault.after))
    assert bool(errors) != bool(fault.unnoticed), errors
    assert not any("SyntaxError" in error or "cannot be imported" in error for error in errors)


def test_nearly_all_faults_are_found() -> None:
    assert len(FAULTS) == len({fault[:4] for fault in FAULTS}) == 52
    assert sum(not fault.unnoticed for fault in FAULTS) >= 46
