"""Visitors of a request, and the roles that routes require."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Depends, Request

Role = Literal["reader", "submitter", "operator"]
ROLES: tuple[Role, ...] = ("reader", "submitter", "operator")
"""Each role has the rights of those before it: read, change jobs, change the cell."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The user of a request and their role."""

    user: str
    role: Role

    def may(self, role: Role) -> bool:
        """Return whether the visitor has a role or one above it."""
        return ROLES.index(self.role) >= ROLES.index(role)


async def visitor(request: Request) -> Visitor:
    """Return the visitor that the middleware of access found."""
    found: Visitor = request.state.visitor
    return found


Reader = Annotated[Visitor, Depends(visitor)]
Submitter = Annotated[Visitor, Depends(visitor)]
Operator = Annotated[Visitor, Depends(visitor)]
