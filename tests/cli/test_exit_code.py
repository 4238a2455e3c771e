"""The exit codes that reasons of failed tasks stand for."""

import pytest

from omega.cli.job.follow import code_of


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("exit 3", 3), ("exit 1 after 5 attempts", 1), ("exit 0", 1), ("exit 300", 255), ("killed by SIGKILL", 137),
        ("killed by SIGTERM after 2 attempts", 143), ("killed by signal 64", 192), ("killed by signal 900", 1),
        ("killed by SIGNONE", 1), ("command not found: ehco", 127), ("not executable: x", 126),
        ("cannot run x: no", 126),
        ("time limit of 3 s", 124), ("out of memory (64 MiB)", 137), ("lost", 1), ("", 1), ("unhealthy", 1),
    ],
)  # a table # fmt: skip
def test_codes(reason: str, code: int) -> None:
    assert code_of(reason) == code
