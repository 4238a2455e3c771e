"""The policies of a plug-in file, the contracts that fit them, and what the contracts find."""

import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.abc import SourceLoader
from importlib.util import module_from_spec, spec_from_loader
from inspect import isclass, signature
from itertools import product
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from omega.cellstate.errors import BadInput
from omega.schedulers.policies import Ordering, with_wrapped
from omega.schedulers.scheduler import Scheduler
from omega.testing.ordering import OrderingContract
from omega.testing.placement import PlacementContract
from omega.testing.preemption import PreemptionContract
from omega.testing.scheduler import SchedulerContract
from omega.testing.sizing import SizingContract

Contract = type[Any]
"""A class of tests: one of the contracts with a policy."""
CONTRACTS: dict[str, Contract] = {
    "ordering": OrderingContract,
    "placement": PlacementContract,
    "preemption": PreemptionContract,
    "sizing": SizingContract,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A test that does not hold: its name, and the error in one line."""

    test: str
    error: str


@dataclass(slots=True, kw_only=True)
class Examined:
    """A contract that was held against its policy: number of tests, and those that fail."""

    contract: str
    subject: str
    axis: str
    tests: int = 0
    failures: list[Failure] = field(default_factory=list)
    greedy: bool | None = None
    """Whether a placement leaves nothing out that would fit; None for other policies."""


class _Source(SourceLoader):
    """A module's source from memory, as if it stood in its file."""

    def __init__(self, path: Path, source: str) -> None:
        self.path, self.source = path, source

    def get_filename(self, fullname: str) -> str:
        return str(self.path)

    def get_data(self, path: str) -> bytes:
        if path != str(self.path):
            raise OSError(path)  # no cached byte code
        return self.source.encode()


def load(path: Path, source: str) -> ModuleType:
    """Import a source as the module of a file. Raises BadInput in one line when that fails."""
    loader = _Source(path, source)
    spec = spec_from_loader(path.stem, loader)
    if spec is None:
        raise BadInput(f"{path}: is no Python module; name a file such as mine.py")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's module may fail in any way
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise BadInput(f"{path}: cannot be imported: {said}; fix it and run it again") from None
    return module


def axis_of(kind: type) -> str | None:
    """Return the axis that a class of policies decides on, by its base or its methods; None for other classes."""
    if issubclass(kind, Ordering):
        return "ordering"
    place, size = getattr(kind, "place", None), getattr(kind, "size", None)
    if isinstance(place, FunctionType):
        return "preemption" if isinstance(getattr(kind, "suspects", None), FunctionType) else "placement"
    return "sizing" if isinstance(size, FunctionType) and len(signature(size).parameters) == 3 else None  # with self


def contracts(module: ModuleType) -> list[Contract]:
    """Return the contracts of a module: those that it defines, and one for each further policy and scheduler.

    A policy is tested as the module's own objects set it, else with its defaults. Raises BadInput when there is none.
    """
    own = [each for each in _defined(module) if issubclass(each, (*CONTRACTS.values(), SchedulerContract))]
    covered = {type(policy) for each in own for policy in _policies_of(each)}
    schedulers = {name: each for name, each in vars(module).items() if isinstance(each, Scheduler)}
    made = list(own)
    objects = [*vars(module).values(), *(each for one in schedulers.values() for each in _parts(one))]
    for kind in _defined(module):
        axis = axis_of(kind)
        if axis is not None and kind not in covered and not issubclass(kind, tuple(CONTRACTS.values())):
            policies = [each for each in with_wrapped(*_policies(objects)) if type(each) is kind] or [_default(kind)]
            made.append(type(f"Test{kind.__name__}", (CONTRACTS[axis],), {"policies": policies, "policy": policies[0]}))
    tested = [each.scheduler for each in own if issubclass(each, SchedulerContract)]
    for name, scheduler in schedulers.items():
        if not any(scheduler is each for each in tested):
            made.append(type(f"Test{name.title()}", (SchedulerContract,), {"scheduler": scheduler}))
    if not made:
        raise BadInput(f"{module.__file__}: has no policy and no scheduler; define a class such as omega.Placement")
    return made


def _defined(module: ModuleType) -> list[type]:
    return [each for each in vars(module).values() if isclass(each) and each.__module__ == module.__name__]


def _policies(objects: Iterable[object]) -> list[object]:
    return [each for each in objects if not isclass(each) and axis_of(type(each)) is not None]


def _parts(scheduler: Scheduler) -> tuple[object, ...]:
    return scheduler.ordering, scheduler.placement, scheduler.preemption, scheduler.sizing


def _policies_of(contract: Contract) -> list[object]:
    if issubclass(contract, SchedulerContract):
        return []
    return [*getattr(contract, "policies", ()), getattr(contract, "policy", None)]


def _default(kind: type) -> object:
    try:
        return kind()
    except TypeError as error:
        what = f"{kind.__name__}: cannot be made without arguments ({error})"
        raise BadInput(f"policy {what}; name one of them in the file, or write its contract there") from None


def _leaves_out(contract: Contract) -> Contract:
    """Return the contract of a placement that may leave out tasks that would fit."""
    return type(contract.__name__, (contract,), {"greedy": False})


def examined(contract: Contract) -> Examined:
    """Run the tests of a contract; a generated one of a placement that is not greedy is held to the other tests."""
    found = _run(contract, thorough=True)
    generated = contract.__module__ == __name__
    if found.failures and generated and found.greedy:
        second = _run(_leaves_out(contract), thorough=True)
        return found if second.failures else second
    return found


def _run(contract: Contract, *, thorough: bool) -> Examined:
    axis = next((name for name, each in CONTRACTS.items() if issubclass(contract, each)), "scheduler")
    if axis == "scheduler":
        subject = f"scheduler {contract.scheduler.kind}"
    else:
        subject = ", ".join(dict.fromkeys(type(each).__name__ for each in _policies_of(contract) if each is not None))
    greedy = contract.greedy if axis == "placement" else None
    found = Examined(contract=contract.__name__, subject=subject, axis=axis, greedy=greedy)
    for name, test in _tests(contract):
        try:
            test()
        except pytest.skip.Exception:
            continue
        except Exception as error:  # noqa: BLE001 - a policy may fail in any way
            found.failures.append(Failure(name, _in_one_line(error)))
        found.tests += 1
        if found.failures and not thorough:
            break
    return found


def _tests(contract: Contract) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the tests of a contract, once for each combination of their parameters."""
    names = [name for kind in reversed(contract.__mro__) for name in vars(kind) if name.startswith("test")]
    for name in dict.fromkeys(names):
        method = getattr(contract(), name)
        marks = [mark for mark in getattr(method, "pytestmark", ()) if mark.name == "parametrize"]
        for values in product(*(mark.args[1] for mark in marks)):
            given = {mark.args[0]: value for mark, value in zip(marks, values, strict=True)}
            words = [getattr(value, "__name__", str(value)) for value in given.values()]
            yield f"{name}[{'-'.join(words)}]" if words else name, partial(method, **given)


def _in_one_line(error: BaseException) -> str:
    """Return an error with the place where it was raised: a failed check says what it expects, or its own text."""
    frames = traceback.extract_tb(error.__traceback__)
    said = str(error).partition("\n")[0]
    if isinstance(error, AssertionError):
        return said or (frames[-1].line or "" if frames else "")
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {said}{where}"


def examine(path: Path, source: str) -> Sequence[Examined]:
    """Import a source as the module of a file and hold its policies to their contracts. Raises BadInput."""
    return [examined(contract) for contract in contracts(load(path, source))]


def first_failure(path: Path, source: str, not_greedy: Collection[str] = ()) -> Failure | None:
    """Return the first test that fails for a mutant of a file; None when it survives. Raises BadInput.

    `not_greedy`: names of the contracts that were so for the file itself.
    """
    for contract in contracts(load(path, source)):
        held = _leaves_out(contract) if contract.__name__ in not_greedy else contract
        if failures := _run(held, thorough=False).failures:
            return failures[0]
    return None
