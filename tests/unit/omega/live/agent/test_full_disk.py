"""A full disk names no file: the error that a person reads does."""

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from omega.live.agent import lease_file
from omega.web.access import tokens


@pytest.mark.parametrize("write", [lease_file.write, tokens.write_private])
def test_a_full_disk_is_an_error_with_the_file(
    write: Callable[[Path, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> io.FileIO:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left") as error:
        write(tmp_path / "state", "text")
    assert error.value.filename == str(tmp_path / "state")
    assert not (tmp_path / "state").exists()
