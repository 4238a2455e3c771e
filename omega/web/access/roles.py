"""Roles, and who has one."""

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["reader", "submitter", "operator"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each has the rights of those before it: those of the store's roles reader, submitter and person (docs/serve.md)."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The user of a request and their role."""

    user: str
    role: Role

    def may(self, role: Role) -> bool:
        """Return whether the visitor has a role or one above it."""
        return ROLES.index(self.role) >= ROLES.index(role)
