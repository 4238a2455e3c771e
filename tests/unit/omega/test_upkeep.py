"""Restarts by kind: what a job file states, and what follows from the kind."""

import pytest

from omega.upkeep import OF_SERVICES, Restarts, restarts


@pytest.mark.parametrize(
    ("kind", "said", "once", "expected"),
    [
        ("batch", None, False, Restarts()),
        ("batch", {"attempts": 3}, False, Restarts(attempts=3)),
        ("batch", {"elsewhere": True}, False, Restarts(elsewhere=True)),
        ("service", None, False, OF_SERVICES),
        ("service", {"delay": 5}, False, OF_SERVICES._replace(delay_ms=5)),
        ("service", {"attempts": 0, "elsewhere": False}, False, OF_SERVICES._replace(attempts=0, elsewhere=False)),
        ("service", None, True, Restarts()),
        ("service", {"attempts": 2, "elsewhere": True}, True, Restarts(attempts=2)),
    ],
)
def test_restarts(kind: str, said: dict[str, object] | None, expected: Restarts, *, once: bool) -> None:
    assert restarts(kind, said, once=once) == expected
