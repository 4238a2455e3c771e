"""How a member of a cell ended, as `omega up` prints it."""

from pathlib import Path

from omega.live.processes.supervisor import ProcessSupervisor


def test_a_warning_is_not_the_reason_of_an_end_in_order(tmp_path: Path) -> None:
    (tmp_path / "agent-h1.log").write_text("2026-01-01T00:00:00.000Z warning: no cgroups why=none\n")
    group = ProcessSupervisor("unix:///s", "c", tmp_path)
    said = [group.end_of("agent/h1", code) for code in (0, 1, -9)]
    assert said == ["ended in order", "ended with code 1: warning: no cgroups why=none", "killed by signal 9"]
