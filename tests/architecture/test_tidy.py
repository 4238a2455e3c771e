"""Style is a test: each rule on every file of the project. That each rule can fail is shown in test_tidy_rules.py."""

from collections.abc import Iterator

from tests.architecture import lua, rules
from tests.architecture.sources import FLOORS, Source, assert_kept, code, texts


def python() -> Iterator[Source]:
    return (source for source in code() if source.is_python)


def scripts() -> Iterator[Source]:
    return (source for source in code() if not source.is_python)


def test_every_floor_is_read() -> None:
    assert {source.folder for source in python()} >= set(FLOORS)
    assert {"pyproject.toml", "Makefile", ".ci/run"} <= {source.path for source in texts()}


def test_files_are_short() -> None:
    assert_kept(rules.long_files, code())


def test_values_of_one_type_are_passed_by_name() -> None:
    assert_kept(rules.exchangeable, python())


def test_file_names_say_something() -> None:
    assert_kept(rules.empty_names, code())


def test_only_cli_talks() -> None:
    assert_kept(rules.talking, python())


def test_clocks_stay_behind_their_doors() -> None:
    assert_kept(rules.clocks, python())


def test_random_numbers_come_from_named_streams() -> None:
    assert_kept(rules.randomness, python())


def test_nothing_runs_foreign_text() -> None:
    assert_kept(rules.dangers, python())


def test_twins_do_not_know_one_another() -> None:
    assert_kept(rules.twins, python())


def test_modules_have_one_name() -> None:
    assert_kept(rules.old_names, texts())


def test_callers_depend_on_ports() -> None:
    assert_kept(rules.implementations, python())


def test_scripts_state_their_contract() -> None:
    assert_kept(lua.lua_headers, scripts())


def test_scripts_are_deterministic() -> None:
    assert_kept(lua.lua_calls, scripts())


def test_scripts_validate_before_they_write() -> None:
    assert_kept(lua.lua_checks_first, scripts())


def test_no_path_of_a_machine() -> None:
    assert_kept(rules.machine_paths, texts())


def test_rules_that_are_named_can_be_looked_up() -> None:
    assert_kept(rules.rule_numbers, code())


def test_pages_that_are_named_are_there() -> None:
    assert_kept(rules.pages, code())
