"""Whether an agent's cgroups limit the memory of a task: the attribute `cgroups` of its machine."""

from pathlib import Path

import pytest

from omega.live.agent.cgroups import Cgroups


@pytest.mark.parametrize(("controllers", "limits"), [("cpu memory\n", True), ("cpu\n", False), (None, False)])
def test_memory_is_limited_where_the_controller_is_shared_out(
    tmp_path: Path, controllers: str | None, limits: bool
) -> None:
    if controllers is not None:
        (tmp_path / "cgroup.subtree_control").write_text(controllers)
    assert Cgroups(tmp_path).limit_memory is limits


def test_without_cgroups_nothing_is_limited() -> None:
    assert Cgroups(None).limit_memory is False
