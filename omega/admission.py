"""Admission: callables of installed packages that see each job on the submitter's side before it is submitted.

A package registers one under ``omega.admission``. It gets an `omega.JobSpec` and returns it changed (defaults,
annotations), or None for unchanged; it refuses the job with an `omega.Refused`. It runs in the process of the
submitter, or in one beside `omega serve`, so it is a service to users, not a protection against them
(docs/job-fields.md).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import OmegaError, Refused

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec

AXIS = "admission"
"""The group of entry points: ``omega.admission``."""


def admitted(spec: "JobSpec") -> "JobSpec":
    """Return a job after every installed admission, in the order of their names, each with the result of the last.

    Raises Refused for a job that one of them refuses, and for an admission that fails; BadInput for one that cannot be
    imported.
    """
    from omega.schedulers.registry import RESTRICT

    for name, admit in _installed(os.environ.get(RESTRICT)):
        spec = _ask(name, admit, spec) if not _bounded else _ask_apart(name, spec)
    return spec


_bounded: list[bool] = []
"""Whether admissions are called in a process of their own."""


@contextmanager
def bounded() -> Iterator[None]:
    """Call admissions in a process of their own during the block, with a bound of time."""
    _bounded.append(True)
    try:
        yield
    finally:
        _bounded.pop()


def _ask_apart(name: str, spec: "JobSpec") -> "JobSpec":
    from omega.live.called_apart import HangError, shared

    try:
        admitted: JobSpec = shared().call(ask, name, spec)
    except HangError as error:
        raise Refused(f"job {spec.name}: admission {name}: {error}; fix or remove it") from None
    return admitted


def ask(name: str, spec: "JobSpec") -> "JobSpec":
    """Return a job after one admission."""
    from omega.schedulers.registry import RESTRICT

    return _ask(name, dict(_installed(os.environ.get(RESTRICT)))[name], spec)


@lru_cache(maxsize=8)
def _installed(_: str | None) -> list[tuple[str, Callable[["JobSpec"], Any]]]:
    """Return the admissions by name; the argument is OMEGA_PLUGINS, which restricts them."""
    from omega.schedulers import registry

    return [(name, entry.load()) for name, entry in sorted(registry.offers(AXIS).items())]


def _ask(name: str, admit: Callable[["JobSpec"], Any], spec: "JobSpec") -> "JobSpec":
    from omega.cellstate.model import JobSpec
    from omega.schedulers.foreign_errors import RAISED, said_at

    where = f"job {spec.name}: admission {name}"
    try:
        answer = admit(spec)
    except OmegaError as error:
        raise Refused(f"{where}: {error}") from None
    except RAISED as error:
        raise Refused(f"{where}: {said_at(error)}; fix or remove it") from None
    if answer is None:
        return spec
    if not isinstance(answer, JobSpec):
        raise Refused(f"{where}: returned a {type(answer).__name__}; return an omega.JobSpec, or None for no change")
    return answer
