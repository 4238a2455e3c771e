"""The report of the long property tests: how many operations of twin and scripts were compared."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of operations that the tests counted (`record_property`)."""
    for outcome in ("passed", "failed"):
        reports = [each for each in terminalreporter.getreports(outcome) if each.when == "call"]
        counts = [value for each in reports for name, value in each.user_properties if name == "operations"]
        if counts:
            what = f"{sum(counts):,} operations in {len(counts)} tests {outcome}"
            terminalreporter.write_line(f"twin and scripts: {what}")
