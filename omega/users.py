"""Whose call it is, and how Omega's client knows: what a job stores of its user."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

SOURCES: Mapping[str, str] = {"login": "verified", "vouched": "vouched"}
"""The fields of a job's specification that name the source of its user; a job without either has a stated one."""


STATED = "stated"
"""The source of a name that a job file, OMEGA_USER or the account states."""


class VouchedUser(str):
    """The name of a user that a service authenticated itself: it counts, not the store's user of that service."""

    __slots__ = ()


def user_of(cell: "Cell", user: str) -> tuple[str, str]:
    """Return the user of a call and the source of the name."""
    if isinstance(user, VouchedUser):
        return str(user), "vouched"
    account = cell.account()
    return (account, "login") if account else (user, STATED)


def source_of(spec: Mapping[str, Any]) -> str:
    """Return the source of the user that a job's specification has."""
    return next((source for source, field in SOURCES.items() if spec.get(field)), STATED)


def owned(spec: Mapping[str, Any], user: str, source: str) -> dict[str, Any]:
    """Return a specification of a user. A `stated` one is the default of a specification that names none."""
    plain = {name: value for name, value in spec.items() if name not in SOURCES.values()}
    if source == STATED:
        return {"user": user, **plain} if user else plain
    return {**plain, "user": user, SOURCES[source]: True}
