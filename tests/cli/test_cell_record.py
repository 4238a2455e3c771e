"""``omega cell record`` and ``backtest``: files, options, errors."""

import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Omega
from tests.contract.trace_samples import SAMPLES


def test_a_quiet_cell_is_recorded(omega: Omega, tmp_path: Path) -> None:
    file = tmp_path / "a.rec.gz"
    found = omega.json("cell", "record", str(file), "--for", "0.1s")
    assert (found["file"], found["versions"], found["gaps"], found["why"]) == (str(file), 0, 0, "time")
    assert found["bytes"] == file.stat().st_size > 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "it has what jobs declare"
    assert "exists; --force overwrites it" in omega.error("cell", "record", str(file), "--for", "0.1s")
    omega.json("cell", "record", str(file), "--for", "0.1s", "--force")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("record", "/absent/a.rec.gz"), "No such file or directory; choose another place"),
        (("record", "a.rec.gz", "--for", "soon"), "is not a duration"),
        (("backtest", "/absent"), "No such file or directory"),
        (("backtest", "SAMPLE", "--vary", "batch"), "write NAME=VALUE"),
        (("backtest", "SAMPLE", "--vary", "colour=red"), "unknown name 'colour'"),
        (("backtest", "SAMPLE", "--vary", "batch=1", "--vary", "batch=2"), "given twice"),
        (("backtest", "SAMPLE", "--vary", "batch=" + ",".join("1" * 65)), "the most is 64"),
        (("backtest", "SAMPLE", "--vary", "placement=nowhere"), "unknown placement"),
    ],
)
def test_errors_are_one_line(omega: Omega, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    sample = str(SAMPLES["omega"].write(tmp_path)) if "SAMPLE" in words else ""
    usage = any(text in said for text in ("write NAME", "unknown name", "given twice"))
    error = omega.error("cell", *(sample if word == "SAMPLE" else word for word in words), code=2 if usage else 1)
    assert said in error
    assert "\n" not in error.strip()


def test_a_cut_recording_is_answered_up_to_the_cut(omega: Omega, tmp_path: Path) -> None:
    path = SAMPLES["omega"].write(tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = omega.json("cell", "backtest", str(path), "--vary", "t-job=2", "--seeds", "1")
    assert found["judgement"]["ok"]
    assert f"{path} is cut; it is read up to the cut" in found["notes"]
    assert found["runs"][0]["effect"]["wait_mean"] > 1
    text = omega.text("cell", "backtest", str(path), "--seeds", "1")
    assert "as recorded" in text


def test_a_replay_of_a_recording_is_a_comparison(omega: Omega, tmp_path: Path) -> None:
    path = str(SAMPLES["omega"].write(tmp_path))
    found = omega.json("sim", "replay", path, "--batch", "+1", "--figures", str(tmp_path / "drawn"))
    assert found["runs"][0]["change"] == {"batch": "+1"}
    assert [Path(each).name for each in found["files"]] == ["what-if.svg", "what-if.png"]
    assert all(Path(each).stat().st_size > 0 for each in found["files"])
    ordinary = omega.json("sim", "replay", path, "--records", str(tmp_path / "records"))
    assert ordinary["trace"]["format"] == "omega"


def test_numbers_more_or_less_are_for_recordings(omega: Omega, tmp_path: Path) -> None:
    path = str(SAMPLES["swf"].write(tmp_path))
    assert "--batch +1: a number more or less is for recordings" in omega.error(
        "sim", "replay", path, "--batch", "+1", code=2
    )
    assert "--placement is for recordings" in omega.error("sim", "replay", path, "--placement", "best-fit", code=2)
