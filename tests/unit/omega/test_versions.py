"""Versions of a job: what each update keeps, what it restores, and how versions differ."""

import pytest

from omega.cellstate.errors import Refused
from omega.changes import resize
from omega.updating import job_update
from omega.versions import KEPT, differences, earlier, find, present
from tests.unit.schedulers.test_rolling import Site


def update(site: Site, command: str, count: int = 2) -> None:
    wanted = job_update(site.job, site.spec(command, count), site.now, "bob")
    site.cell.jobs.update("a", wanted.groups, wanted.spec, site.now, "bob")
    site.until_settled()


def test_each_update_keeps_the_version_before_it() -> None:
    site = Site(2, room=4)
    for number in range(2, KEPT + 4):
        update(site, f"v{number}")
    kept = earlier(site.job)
    assert [version.number for version in kept] == list(range(3, KEPT + 3))
    assert [version.groups[0].spec["command"] for version in kept] == [[f"v{n}"] for n in range(3, KEPT + 3)]
    assert (present(site.job).number, present(site.job).by) == (KEPT + 3, "bob")


def test_an_update_that_changes_nothing_makes_no_version() -> None:
    site = Site(2, room=4)
    update(site, "new")
    before = site.job.spec
    update(site, "new")
    assert [site.job.spec[name] for name in ("version", "versions")] == [before["version"], before["versions"]]


def test_a_version_has_the_number_of_tasks_that_a_person_set() -> None:
    site = Site(2, room=4)
    site.cell.jobs.resize("a", {0: 3}, 1, "ada")
    update(site, "new", 3)
    site.until_settled()
    resize(site.cell, site.job, None, 4, 1, "ada", None)
    update(site, "newest", 2)
    assert [version.groups[0].count for version in earlier(site.job)] == [3, 4]


def test_a_version_is_found_by_its_number_and_becomes_a_new_one() -> None:
    site = Site(2, room=4)
    with pytest.raises(Refused, match="never updated"):
        find(site.job, None)
    update(site, "new")
    update(site, "newest", 3)
    assert find(site.job, None).number == 2
    back = find(site.job, 1).spec(site.job)
    wanted = job_update(site.job, back, 9, "ada")
    site.cell.jobs.update("a", wanted.groups, wanted.spec, 9, "ada")
    site.until_settled()
    assert site.running() == {"old": 2, "new": 0, "newest": 0}
    assert present(site.job).number == 4
    with pytest.raises(Refused, match="no version 9"):
        find(site.job, 9)


def test_versions_differ_by_fields() -> None:
    site = Site(2, room=4)
    update(site, "new", 3)
    found = differences(find(site.job, 1), present(site.job), ("cpu", "memory"))
    assert found == [("tasks.web.count", 2, 3), ("tasks.web.command", ["old"], ["new"])]
