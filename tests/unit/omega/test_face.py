"""`import omega` is all that a user writes, and costs nothing until something is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import omega


@pytest.mark.parametrize("name", [*omega._HOME_OF, "testing"])
def test_every_name_is_there(name: str) -> None:
    assert getattr(omega, name) is getattr(omega, name)
    assert name in dir(omega)


def test_names_for_checkers_of_types_are_those_for_python() -> None:
    tree = ast.parse(Path(omega.__file__).read_text(encoding="utf-8"))
    imported = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) and each.module != "importlib"]
    public = {alias.asname: each.module for each in imported for alias in each.names if alias.asname == alias.name}
    assert public == omega._HOME_OF | dict.fromkeys(omega._PACKAGES, "omega")
    assert set(vars(omega)["__all__"]) == public.keys()


def test_importing_it_imports_nothing_else() -> None:
    """What takes time: numpy, pydantic and the floors below. Counted, not timed."""
    program = "import sys; before = set(sys.modules); import omega; print(len(set(sys.modules) - before)); omega.Fifo"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 8, done.stdout


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'omega' has no attribute 'Nope'"):
        omega.Nope  # type: ignore[attr-defined]  # noqa: B018


def test_a_policy_that_forgets_its_method_cannot_be_made() -> None:
    class Empty(omega.Placement):
        """Forgets to place."""

    with pytest.raises(TypeError, match="abstract"):
        Empty()  # type: ignore[abstract]
