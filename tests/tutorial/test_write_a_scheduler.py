"""docs/write-a-scheduler.md is true: its files are written, its commands are run, in its order, in one folder."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import ExitStack
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from uuid import uuid4

import pytest

from omega.cellstate.redis import RedisCell
from omega.schedulers.registry import AXES
from tests.tutorial.page import SECONDS, at_work, blocks

PAGE = "write-a-scheduler.md"
FIRST_LINE = re.compile(r"# (\S+\.\w+)\n")


@pytest.mark.server
@pytest.mark.chaos
def test_the_page_holds(store_url: str, tmp_path: Path) -> None:
    environment = os.environ | {
        "OMEGA_STORE": store_url,
        "OMEGA_CELL": f"page-{uuid4().hex[:8]}",
        "OMEGA_STATE": str(tmp_path / "state"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTEST_ADDOPTS": "-p no:valkey -p no:cacheprovider",
    }
    with ExitStack() as background:
        for language, text in blocks(PAGE):
            if language in ("python", "toml"):
                name = FIRST_LINE.match(text)
                assert name is not None, "a file begins with its name"
                (tmp_path / name[1]).write_text(text, encoding="utf-8")
            elif language == "sh":
                for line in text.splitlines():
                    words = shlex.split(line)
                    if words[-1] == "&":
                        background.enter_context(at_work(words[:-1], tmp_path, environment))
                        continue
                    done = subprocess.run(
                        words,
                        cwd=tmp_path,
                        env=environment,
                        capture_output=True,
                        text=True,
                        timeout=SECONDS,
                        check=False,
                    )
                    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    cell = RedisCell.connect(store_url, environment["OMEGA_CELL"])
    assert cell.schedulers.members() == {}, "who is told to stop leaves nobody behind"
    cell.delete()
    cell.close()


def test_what_the_package_of_the_page_offers_is_there(tmp_path: Path) -> None:
    texts = {found[1]: text for _, text in blocks(PAGE) if (found := FIRST_LINE.match(text))}
    (tmp_path / "coldest.py").write_text(texts["coldest.py"], encoding="utf-8")
    spec = spec_from_file_location("coldest", tmp_path / "coldest.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    offered = tomllib.loads(texts["pyproject.toml"])["project"]["entry-points"]
    assert {group.removeprefix("omega.") for group in offered} <= set(AXES)
    for names in offered.values():
        for target in names.values():
            assert hasattr(module, target.partition(":")[2])
