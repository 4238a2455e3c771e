"""`omega scheduler run` and `list`: processes that take jobs, share them, and leave when asked."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import EARLIER
from omega.schedulers.live_driver import LiveDriver
from omega.schedulers.process import scheduler as process
from omega.schedulers.registry import offers
from tests.cli.conftest import Omega, eventually, join
from tests.cli.test_main import ROOT, start

MINE = """
from omega.schedulers.placement.service import BestFit
from omega.schedulers.scheduler import Scheduler
cold = Scheduler("cold", placement=BestFit(apart=1))
"""


@contextmanager
def running(omega: Omega, state: Path, *words: str, within: Path = ROOT) -> Iterator["subprocess.Popen[str]"]:
    """`omega scheduler run` as a process; killed at the end when the test did not end it."""
    shared = ("--store", str(omega.url), "--cell", str(omega.cell), "--json", "scheduler", "run")
    process = start(*shared, *words, within=within, OMEGA_STATE=str(state))
    with process:  # waits for its end
        try:
            yield process
        finally:
            process.kill()


def live(cell: RedisCell) -> set[str]:
    return {member for member, (_, alive, _) in cell.schedulers.members().items() if alive}


@pytest.mark.chaos
def test_one_scheduler_works_and_leaves(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    join(cell, 1)
    with running(omega, tmp_path, "batch") as process:
        eventually(lambda: live(cell) == {"batch/0"})
        omega.run("job", "run", "--name", "a", "--count", "3", "--cpu", "100m")
        eventually(lambda: omega.json("job", "status", "a")["counts"]["placed"] == 3)
        eventually(lambda: omega.json("scheduler", "list")["schedulers"][0]["tasks"] == 3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert err == f"scheduler batch/0 on cell {cell.name} · Ctrl-C stops it\n"
    found = json.loads(out)["schedulers"][0]
    assert (found["member"], found["state"], found["tasks"]) == ("batch/0", "left", 3)
    assert live(cell) == set()


@pytest.mark.chaos
def test_several_share_the_work_and_one_may_die(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    join(cell, 4)
    cell.schedulers.register("batch/1", "elsewhere", 60_000, 1)
    with running(omega, tmp_path, "batch", "--instances", "2") as process:
        assert process.stderr is not None
        ready = process.stderr.readline()
        assert ready.startswith(f"schedulers batch/0 batch/2 on cell {cell.name} · pid ")
        assert {"batch/0", "batch/2"} <= live(cell)
        os.kill(int(ready.split("pid ")[1].split()[0]), signal.SIGKILL)
        said = process.stderr.readline()
        assert said == "warning: scheduler batch/0: killed by signal 9; the others take over its jobs\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, "")
    assert err.splitlines() == [
        "stopping 1 scheduler",
        f"error: schedulers batch/0: ended unexpectedly; see {tmp_path}/logs/{cell.name}",
    ]
    assert "batch/2" not in live(cell)


def test_one_of_ones_own_from_its_folder(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    """By module and attribute alone, and from a file as two processes; jobs of its kind are theirs."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "cold.toml").write_text('kind = "cold"\n[placement]\npolicy = "best-fit"\napart = 1\n')
    join(cell, 3)
    omega.run("job", "run", "--name", "a", "--kind", "cold", "--count", "3", "--cpu", "100m")
    with running(omega, tmp_path, "mine:cold", within=tmp_path) as alone:
        eventually(lambda: omega.json("job", "status", "a")["counts"]["placed"] == 3)
        assert {len(cell.machines.runs([machine])) for machine in range(3)} == {1}, "as the policy wants it"
        with running(omega, tmp_path, "--file", "cold.toml", "--instances", "2", within=tmp_path) as several:
            eventually(lambda: live(cell) == {"cold/0", "cold/1", "cold/2"})
            several.send_signal(signal.SIGINT)
            assert several.wait(30) == 0
        alone.send_signal(signal.SIGINT)
        assert alone.wait(30) == 0


def test_a_kind_that_executors_are_called_is_refused(omega: Omega, tmp_path: Path) -> None:
    path = tmp_path / "executor.toml"
    path.write_text('kind = "simulated"')
    said = omega.error("scheduler", "run", "--file", str(path))
    assert said == "scheduler of kind 'simulated': the name is reserved for executors; choose another kind"


def test_policies_say_what_can_be_set(omega: Omega, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {(each["axis"], each["name"]): each for each in omega.json("scheduler", "policies")["policies"]}
    assert found["placement", "best-fit"]["parameters"] == [
        {"name": "apart", "type": "int", "required": False, "default": 0}
    ]
    assert found["schedulers", "batch"]["target"] == "omega.schedulers.presets:batch"
    assert all(each["about"] and each["error"] is None for each in found.values())
    info = tmp_path / "odd-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[omega.placement]\nodd = no_such_module:Odd\n")
    monkeypatch.syspath_prepend(tmp_path)
    result = omega.run("scheduler", "policies", "placement")
    assert result.stderr.startswith("warning: placement 'odd' of package odd: no_such_module:Odd cannot be used: ")
    assert "window=64" in result.stdout
    assert "from odd 1" in result.stdout
    assert omega.error("scheduler", "policies", "nope").startswith(
        "axis 'nope': unknown; known axes: schedulers, ordering, "
    )


def test_policies_of_a_package_are_described_by_their_first_sentence_and_schedulers_by_their_parts(
    omega: Omega, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "wrapped-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wrapped\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[omega.placement]\nwrapped = wrapped_policies:Wrapped\n[omega.schedulers]\nown = wrapped_policies:own\n"
    )
    (tmp_path / "wrapped_policies.py").write_text(
        "import omega\n\n\nclass Wrapped(omega.BestFit):\n"
        '    """Prefer a machine,\n    and say so in two lines. More.\n    """\n\n\n'
        'own = omega.Scheduler("own", placement=Wrapped())\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = {(each["axis"], each["name"]): each["about"] for each in omega.json("scheduler", "policies")["policies"]}
    assert found["placement", "wrapped"] == "Prefer a machine, and say so in two lines."
    assert found["schedulers", "own"] == "Takes jobs of kind own: PrecedenceFifo, Wrapped, NoPreemption."
    assert "Takes jobs of kind own: PrecedenceFifo, Wrapped" in omega.text("scheduler", "policies", "schedulers")


def test_a_scheduler_started_twice_under_one_name(
    omega: Omega, cell: RedisCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "NAME_LEASES", 0.0)
    cell.schedulers.register("batch/mine", "elsewhere", 60_000, 1)
    result = omega.run("scheduler", "run", "batch", "--name", "mine", code=1)
    assert result.stderr.splitlines()[-1] == (
        "error: scheduler batch/mine: another one runs under this name; choose another or stop it"
    )


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("nope",), 1, f"unknown scheduler 'nope'; known: {', '.join(sorted(offers('schedulers')))}"),
        ((), 2, "omega scheduler run: give either a KIND or --file; see omega scheduler run --help"),
        (("batch", "--name", "a b"), 1, "scheduler name 'batch/a b': want kind/instance, for example batch/0"),
        (
            ("batch", "--name", "a", "--instances", "2"),
            2,
            (
                "omega scheduler run: --name is for one scheduler; leave it out with --instances; "
                "see omega scheduler run --help"
            ),
        ),
    ],
)
def test_what_cannot_be_run(omega: Omega, words: tuple[str, ...], code: int, message: str) -> None:
    assert omega.error("scheduler", "run", *words, code=code) == message


def test_a_cell_that_is_up_says_where_to_stop_it(omega: Omega, cell: RedisCell) -> None:
    cell.schedulers.renew(cell.schedulers.register("batch/0", "nonce", 60_000, 1), 60_000, {"pid": 7, "host": "h"})
    cell.schedulers.register("batch/1", "nonce", 60_000, 1)
    told = (
        "is already up (batch/0, pid 7 on h; batch/1); stop it first (omega down), or choose another cell with --cell"
    )
    assert omega.error("up") == f"cell {cell.name} {told}"


def test_list_field_by_field(omega: Omega, cell: RedisCell) -> None:
    assert omega.json("scheduler", "list") == {"cell": omega.cell, "schedulers": [], "refuses_writes": None}
    membership = cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    words = "jobs tasks transactions accepted conflicts queued blocked abandoned conflict_fraction busyness seconds"
    unknown = dict.fromkeys(f"{words} metrics heartbeat_at_ms pid host job_fields".split())
    fresh = {
        "member": "batch/0",
        "state": "live",
        "alive": True,
        "incarnation": 1,
        "wait_seconds": {"mean": None, "p90": None},
        "failing": {},
        "failed": None,
        **unknown,
    }
    assert omega.json("scheduler", "list")["schedulers"] == [fresh]
    figures = {
        "jobs": 1200,
        "tasks": 31_000,
        "transactions": 1300,
        "accepted": 1250,
        "conflicts": 50,
        "queued": 4,
        "blocked": 3,
        "abandoned": 1,
        "conflict_fraction": 0.04,
        "busyness": 0.41,
        "seconds": 9.5,
    }
    cell.schedulers.renew(membership, 60_000, figures | {"wait_mean": 0.02, "wait_p90": 0.3})
    told = fresh | figures | {"wait_seconds": {"mean": 0.02, "p90": 0.3}}
    assert omega.json("scheduler", "list")["schedulers"] == [told]
    header, row = omega.text("scheduler", "list").splitlines()
    assert " ".join(header.split()) == "scheduler state jobs tasks conflicts wait/p90 busy queued blocked abandoned"
    assert " ".join(row.split()) == "batch/0 live 1,200 31,000 50/1,300 (0.040) 20 ms/0.30 s 0.41 4 3 1"
    assert len(row) <= 100
    earlier = {EARLIER: {"transactions": 7, "accepted": 5, "conflicts": 2}}
    cell.schedulers.renew(membership, 60_000, figures | earlier)
    counts = {"total": 1307, "accepted": 1255, "conflicts": 52, "conflict_fraction": 52 / 1255, "of_schedulers": 1}
    assert omega.json("cell", "status")["transactions"] == counts
    cell.client.delete(f"omega:1:{{{cell.name}}}:lease:batch/0")
    assert omega.json("scheduler", "list")["schedulers"][0]["state"] == "lapsed"
    cell.schedulers.deregister(membership, 1)
    assert omega.json("scheduler", "list")["schedulers"] == []
    assert omega.json("scheduler", "list", "--all")["schedulers"][0]["state"] == "left"


def test_a_job_submitted_wakes_its_scheduler(omega: Omega, cell: RedisCell) -> None:
    cell.schedulers.register("batch/0", "nonce", 60_000, 1)
    omega.run("job", "run", "--name", "a")
    assert cell.client.llen(f"omega:1:{{{cell.name}}}:wake:batch/0") == 1
    cell.jobs.submit([JobSpec("b", "b", "batch", (TaskGroup((1, 1), 1),))], 1, "ada")


def test_the_name_that_it_got_is_printed(
    omega: Omega, cell: RedisCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another scheduler takes the name between the look and the enlisting; only the name it has is printed."""
    from omega.cli.scheduler import run
    from omega.live.processes.watch import Watch

    cell.schedulers.register("batch/0", "elsewhere", 60_000, 1)
    found = iter([["batch/0"], ["batch/7"]])
    monkeypatch.setattr(run, "free_names", lambda *_: next(found))
    monkeypatch.setattr(LiveDriver, "run", lambda self: self.cell.schedulers.deregister(self.membership, 1))
    monkeypatch.setattr(process, "NAME_LEASES", 0.0)
    monkeypatch.setattr(Watch, "run", lambda self, call: call(self))  # in this process, whose output is read
    assert omega.run("scheduler", "run", "batch").stderr == f"scheduler batch/7 on cell {cell.name} · Ctrl-C stops it\n"


def test_what_is_said_of_an_offer_is_a_whole_sentence() -> None:
    from omega.cli.scheduler.policies import _about
    from omega.schedulers.ordering.without_pools import FairUsers
    from omega.schedulers.scheduler import Scheduler

    assert _about(FairUsers).endswith("smallest dominant share ÷ weight; a user's jobs by precedence, then FIFO.")
    assert _about(Scheduler("cold")) == "Takes jobs of kind cold: PrecedenceFifo, FirstFit, NoPreemption."
