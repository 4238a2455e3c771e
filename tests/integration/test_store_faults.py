"""The store dies and comes back, with all its data or with what it had a while ago; the cell goes on."""

from pathlib import Path
from random import Random

import pytest

from omega.cellstate.errors import Unreachable
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Position, Transaction
from tests.integration.stage import (
    DEFAULT_EXECUTOR,
    check,
    check_all_ended,
    embedded_store,
    made_cell,
    mixed_jobs,
    seen,
    serve,
    simple_job,
    started_processes,
    submit,
    submit_again,
    unfinished,
    until,
    words_of,
)

pytestmark = pytest.mark.server
MEMBERS = ("batch/0", "batch/1", "service/0", f"simulated/{DEFAULT_EXECUTOR}")


@pytest.mark.parametrize(
    "lease_ms", [300, pytest.param(5_000, marks=pytest.mark.chaos)], ids=["leases lapse", "leases hold"]
)
def test_a_store_killed_under_load_comes_back_and_everything_ends(tmp_path: Path, lease_ms: int) -> None:
    jobs = mixed_jobs(Random("1/store faults"), 2_000, "stream", longest_ms=300)
    with (
        embedded_store() as store,
        made_cell(store.url, "killed", 100) as cell,
        started_processes(cell, store.url, tmp_path, *MEMBERS, lease_ms=lease_ms) as group,
    ):
        for number, start in enumerate(range(0, len(jobs), 20)):
            submit_again(cell, jobs[start : start + 20])
            if number in (3, 6):
                until(lambda: seen(cell, "finished"), "all are at work, the executor too")
                store.kill()
                until(lambda: all(len(words_of(group, each)) % 2 for each in MEMBERS), "all of them notice")
                store.start()
        # A crash may cost what was acknowledged and not written yet; whoever submitted does it again.
        submit_again(cell, jobs)
        until(lambda: not unfinished(cell), "every task runs to its end")
        assert group.dead() == {}
        check_all_ended(cell, jobs)


@pytest.mark.parametrize(
    "quick", [pytest.param(False, marks=pytest.mark.chaos), True], ids=["noticed", "between two calls"]
)
def test_a_store_that_went_back_in_time_is_followed_there(tmp_path: Path, quick: bool) -> None:
    """Semantics 16: versions, arrivals and placement ids that were given out are given out anew."""
    before = mixed_jobs(Random("2/store faults"), 500, "before", longest_ms=50)
    lost = [simple_job(f"lost-{number}", 4, ms=600_000) for number in range(150)]
    after = [simple_job(f"after-{number}", 3) for number in range(60)]
    with (
        embedded_store() as store,
        made_cell(store.url, "back", 40) as cell,
        started_processes(cell, store.url, tmp_path, *MEMBERS, lease_ms=600) as group,
    ):
        submit(cell, before)
        until(lambda: not unfinished(cell), "the first jobs end")
        store.write()
        size, version = store.log_of_writes.stat().st_size, cell.counters()["version"]
        submit(cell, lost)
        until(lambda: not cell.schedulers.queue_depths(), "the others are placed")
        until(lambda: store.log_of_writes.stat().st_size > size, "the store's log has grown")
        store.kill()
        with store.log_of_writes.open("r+b") as log:
            log.truncate(size)
        if not quick:
            until(lambda: all(words_of(group, each) for each in MEMBERS), "all of them notice")
        store.start()
        assert cell.counters()["version"] <= version + 30
        assert len(cell.jobs.all()) == len(before)
        submit_again(cell, after)
        until(lambda: not unfinished(cell), "the jobs that came after are placed, and end")
        assert not seen(cell, "submit", "lost-0")
        assert group.dead() == {}
        check_all_ended(cell, [*before, *after])


def test_a_store_that_vanishes_in_the_middle_of_a_commit_is_asked_again() -> None:
    """Semantics 14: whether the commit or only its reply was lost, sent again it takes effect once."""
    with embedded_store() as store, made_cell(store.url, "middle", 1) as cell:
        serve(cell)
        submit(cell, [simple_job("job", 4)])
        membership = cell.schedulers.register("batch/0", "nonce", 60_000, 0)
        cell.schedulers.commit(CommitRequest(membership, 1, [Transaction("another", (Claim(0, 0, 1),))], Position(), 0))
        for number in (2, 3):
            store.write()
            store.halt()
            cell.schedulers.begin(
                CommitRequest(membership, number, [Transaction("job", (Claim(0, 0, 2),))], Position(), 0)
            )
            store.kill()
            with pytest.raises(Unreachable) as refusal:
                cell.schedulers.finish()
            assert str(refusal.value).startswith(f"no answer from the store at {store.url}: ")
            store.start()
            for _ in range(2):
                cell.schedulers.resend()
            assert [outcome.placed for outcome in cell.schedulers.finish().outcomes] == [2]
            assert cell.counters()["placements"] == number - 1
        check(cell)
