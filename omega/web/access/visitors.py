"""Visitors of a request, and the roles that routes require."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, HTTPException, Request, Security
from fastapi.security import HTTPBearer

from omega.web.access.roles import Role, Visitor

__all__ = ["Admission", "Operator", "Reader", "Submitter", "Visitor", "admission", "required"]


@dataclass(slots=True)
class Admission:
    """How a request was admitted. `key` is the same for all requests of one token, or of one user of a proxy.

    A browser sends the credentials of an `ambient` one by itself: changes then need `csrf`, which is "" otherwise.
    """

    visitor: Visitor
    key: str
    csrf: str
    current: Callable[[], Visitor | None]

    @property
    def ambient(self) -> bool:
        """Whether the browser sends the credentials by itself."""
        return bool(self.csrf)

    def revoked(self) -> str:
        """Return why the request would no longer be admitted, "" while it is."""
        now = self.current()
        if now is None:
            return "the token or session was revoked, or has expired"
        return "" if now.may(self.visitor.role) else f"the role is no longer {self.visitor.role}, but {now.role}"


def admission(request: Request) -> Admission:
    """Return how a request was admitted; for streams, which end when it was revoked, and for forms."""
    found: Admission = request.state.admission
    return found


def required(request: Request, role: Role) -> Visitor:
    """Return the visitor whom the gate admitted, when their role suffices. Raises HTTPException."""
    found = admission(request).visitor
    if not found.may(role):
        what = f"{request.method} {request.url.path}"
        raise HTTPException(403, f"{what}: needs the role {role}, and {found.user} has the role {found.role}")
    return found


def _requiring(role: Role) -> Callable[..., Awaitable[Visitor]]:
    async def visitor(
        request: Request, _: Annotated[object, Security(HTTPBearer(auto_error=False, scheme_name="token"))]
    ) -> Visitor:
        """Return the visitor whom the gate admitted, when their role suffices."""
        return required(request, role)

    visitor.role = role  # type: ignore[attr-defined] # for the test that every route declares one
    return visitor


Reader = Annotated[Visitor, Depends(_requiring("reader"))]
Submitter = Annotated[Visitor, Depends(_requiring("submitter"))]
Operator = Annotated[Visitor, Depends(_requiring("operator"))]
