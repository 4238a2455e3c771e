"""The mutation run draws from files that exist, and leaves out mutants that its files have."""

import pytest

from tests.chaos import mutation


def test_every_mutant_left_out_is_a_mutant_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict(mutation.EQUIVALENT)
    monkeypatch.setattr(mutation, "EQUIVALENT", {})
    drawn = {path: {mutant.after.strip() for mutant in mutation.mutants(path)} for path in mutation.ALL}
    assert [(path, line) for path, line in known if line not in drawn[path]] == []
