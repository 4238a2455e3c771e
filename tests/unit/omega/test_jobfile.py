"""Job files: what they may say, and the one line that says what is wrong with them."""

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from omega.cellstate.durations import parse_duration
from omega.cellstate.errors import BadInput
from omega.cellstate.model import Gang, JobSpec, TaskGroup
from omega.cellstate.resources import Dimensions
from omega.jobfile import document as jobfile_document
from omega.jobfile.reader import JobFile, load

ENDLESS = "tasks of services and workers of MapReduce do not end, so none is slow"
FULL = """
name: crawl
id: crawl-1
kind: service
precedence: 100
pool: analytics/adhoc
gang: strict
user: ada
environment: {LANG: C}
directory: /data
tasks:
  - name: fetch
    count: 40
    resources: {cpu: 500m, memory: 256Mi}
    command: ["sleep", "30"]
    duration: 30s
    constraints: ["platform == 'x86'", "zone in ['a','b']", {prefer: has ssd, weight: 80}]
    spread: [rack, {domain: zone, share: 0.5}]
    different_machines: true
    near: db
    apart_from: [{job: noisy, domain: rack}]
    locality: {nodes: [m1, m7], wait: [5s, 10s]}
    restart: {attempts: 3, delay: 500ms, factor: 1.5}
    time_limit: 1h
    grace: 0s
    keep_output: 64Ki
    output: 'out/{index}.txt'
    error: 'out/{index}.err'
  - resources: {cpu: 2, memory: 1.5Mi}
"""


def read(text: str, name: str = "jobs.yaml", dimensions: Dimensions | None = None) -> list[JobSpec]:
    ids = itertools.count()
    return load([JobFile(name, text)], dimensions or Dimensions(), lambda: f"made-{next(ids)}")


def refused(text: str, name: str = "jobs.yaml") -> str:
    with pytest.raises(BadInput) as caught:
        read(text, name)
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_every_field() -> None:
    fetch: dict[str, Any] = {
        "name": "fetch",
        "command": ["sleep", "30"],
        "spread": ["rack", {"domain": "zone", "share": 0.5}],
        "constraints": ["platform == 'x86'", "zone in ['a','b']", {"prefer": "has ssd", "weight": 80}],
        "different_machines": True,
        "near": "db",
        "apart_from": [{"job": "noisy", "domain": "rack"}],
        "locality": {"machines": ["m1", "m7"], "wait_ms": [5000, 10_000]},
        "restart": {"attempts": 3, "delay": 500, "factor": 1.5},
        "time_limit": 3_600_000,
        "grace": 0,
        "keep_output": 65_536,
        "output": "out/{index}.txt",
        "error": "out/{index}.err",
    }
    groups = (TaskGroup((500, 256), 40, 30_000, fetch), TaskGroup((2000, 1), 1, 0, {"memory_bytes": 3 << 19}))
    extra = {"pool": "analytics/adhoc", "user": "ada", "environment": {"LANG": "C"}, "directory": "/data"}
    assert read(FULL) == [JobSpec("crawl-1", "crawl", "service", groups, 100, Gang.STRICT, extra)]


def test_a_job_whose_tasks_get_copies_has_a_group_for_them() -> None:
    (job,) = read(
        "name: a\nid: a\nspeculation: {after: 10m, copies: 2}\ntasks:\n- {command: [x], repeatable: true, count: 3}"
    )
    said = {"command": ["x"], "repeatable": True}
    assert job.groups == (TaskGroup((0, 0), 3, 0, said), TaskGroup((0, 0), 0, 0, said, copies=True))
    assert job.spec == {"speculation": {"after": 600.0, "copies": 2}}
    assert read("name: a\nspeculation: false\ntasks: [{}]")[0].groups == (TaskGroup((0, 0), 1),)


def test_the_least_a_job_says() -> None:
    assert read("name: a\ntasks: [{}]") == [JobSpec("made-0", "a", "batch", (TaskGroup((0, 0), 1),))]


def test_a_job_may_refuse_all_restarts() -> None:
    (job,) = read("name: a\nkind: service\ntasks: [{restart: never}]")
    assert job.groups[0].spec == {"restart": {"attempts": 0, "elsewhere": False}}
    assert "restart: 'always' is not a mapping of fields" in refused("name: a\ntasks: [{restart: always}]")


def test_json_and_yaml_say_the_same() -> None:
    job = {"name": "a", "gang": True, "tasks": [{"count": 2, "resources": {"cpu": 0.5}, "duration": 1.5}]}
    from_json = read(json.dumps([job], indent="\t"), "jobs.json")
    assert (
        from_json
        == read(json.dumps([job]))
        == read("- {name: a, gang: true, tasks: [{count: 2, resources: {cpu: 0.5}, duration: 1.5}]}")
    )
    assert from_json[0].gang is Gang.YES
    assert from_json[0].groups == (TaskGroup((500, 0), 2, 1500),)


@pytest.mark.parametrize(
    ("gang", "kind", "least"),
    [("{min: 6}", Gang.YES, 6), ("{min: 6, strict: true}", Gang.STRICT, 6), ("{min: 6, strict: false}", Gang.YES, 6),
     ("true", Gang.YES, 0)],
)  # fmt: skip
def test_a_gang_may_have_a_minimum(gang: str, kind: Gang, least: int) -> None:
    (job,) = read(f"name: a\ngang: {gang}\ntasks: [{{count: {9000 if least else 9}}}]")
    assert (job.gang, job.gang_min) == (kind, least)


def test_a_list_makes_several_jobs_and_ids_are_asked_for_once_each() -> None:
    jobs = read("- {name: a, tasks: [{}]}\n- {name: b, id: own, tasks: [{}]}\n- {name: c, tasks: [{}]}\n")
    assert [(job.id, job.name) for job in jobs] == [("made-0", "a"), ("own", "b"), ("made-1", "c")]


def test_merge_keys_and_aliases() -> None:
    jobs = read("- &one {name: a, precedence: 5, tasks: &tasks [{count: 3}]}\n- {<<: *one, name: b}\n")
    assert [(job.name, job.precedence, job.total) for job in jobs] == [("a", 5, 3), ("b", 5, 3)]


def test_the_resources_of_another_cell() -> None:
    jobs = read("name: a\ntasks: [{resources: {gpu: 2}}]", dimensions=Dimensions(("cpu", "gpu")))
    assert jobs[0].groups[0].need == (0, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks: [{}]", "1: name: is missing"),
        ("name: a", "1: tasks: is missing"),
        ("- name: a\n  tasks: [{}]\n-\n  tasks: [{}]", "4: [1].name: is missing"),
        ("name: 3\ntasks: [{}]", "1: name: 3 is not text; put it in quotes"),
        ("name: a b\ntasks: [{}]", "1: name: 'a b': use 1 to 128 letters, digits, . _ / -"),
        ("name: a\nid: ''\ntasks: [{}]", "2: id: '': use 1 to 64 letters, digits, . _ -"),
        ("name: a\nkind: B\ntasks: [{}]",
         "2: kind: 'B': use a lower-case letter, then up to 31 letters, digits, _ -"),
        ("name: a\nprecedence: -1\ntasks: [{}]", "2: precedence: -1 is not allowed; want at least 0"),
        ("name: a\nprecedence: 1000001\ntasks: [{}]",
         "2: precedence: 1000001 is not allowed; want at most 1000000"),
        ("name: a\nprecedence: high\ntasks: [{}]", "2: precedence: 'high' is not a whole number"),
        ("name: a\ngang: maybe\ntasks: [{}]", "2: gang: 'maybe' is not allowed; write true, false, strict or {min: 6}"),
        ("name: a\ngang: [1]\ntasks: [{}]", "2: gang: [1] is not allowed; write true, false, strict or {min: 6}"),
        ("name: a\npool: /a//b\ntasks: [{}]",
         "2: pool: '/a//b' is not a path of pools; write for example analytics/adhoc"),
        ("name: a\nenvironment: {A: 1}\ntasks: [{}]", "2: environment.A: 1 is not text; put it in quotes"),
        ("name: a\ndirectory: data\ntasks: [{}]",
         "2: directory: 'data' is not a whole path; write for example /data, as it is on the machines"),
        ("name: a\ntasks: []", "2: tasks: [] is not a list with something in it"),
        ("name: a\ntasks: {count: 1}", "2: tasks: {'count': 1} is not a list; write [a, b]"),
        ("name: a\ntasks: [3]", "2: tasks[0]: 3 is not a mapping of fields"),
        ("name: a\ntasks:\n- count: 1\n  cout: 2",
         ("4: tasks[0].cout: unknown field; did you mean count? allowed: name, count, resources, command, runner, "
          "image, duration, "
         "constraints, spread, different_machines, near, apart_from, locality, restart, health, time_limit, "
         "repeatable, grace, keep_output, output, error, "
         "array")),
        ("name: a\ntasks:\n- cpu: 2",
         ("3: tasks[0].cpu: unknown field; did you mean resources: {cpu: …}? allowed: name, count, resources, command, "
          "runner, image, duration, constraints, spread, different_machines, near, apart_from, locality, restart, "
          "health, time_limit, repeatable, grace, keep_output, output, error, array")),
        ("name: a\ntasks:\n- locality: {zones: [a]}",
         "3: tasks[0].locality.zones: unknown field; allowed: machines, where, domains, wait"),
        ("name: a\ntasks:\n- locality: {wait: [5s]}",
         "3: tasks[0].locality: names no machine; write machines: [m1, m7], or where: a constraint"),
        ("name: a\ntasks:\n- locality:\n    machines: [m1]\n    wait: [-5s]",
         "5: tasks[0].locality.wait[0]: '-5s' is not a duration; write for example 30s, 5m, 1h30m or 250ms"),
        ("name: a\ntasks:\n- locality:\n    machines: [m1]\n    wait: [5s, -1]",
         "5: tasks[0].locality.wait[1]: -1 is not a duration; write for example 30s, 5m, 1h30m or 250ms"),
        ("name: a\ntasks:\n- locality: {machines: [m1], wait: [1s, 2s, 3s]}",
         "3: tasks[0].locality: wait: 3 times for 2 levels (machine, rack); name further ones in domains"),
        ("name: 1\nprecedence: x\ngang: no\nuser: 2\nid: 3\ntasks: 4",
         ("1: name: 1 is not text; put it in quotes; also jobs.yaml:5: id: 3 is not text; put it in quotes; "
         "also jobs.yaml:2: precedence: 'x' is not a whole number; also jobs.yaml:3: gang: 'no' is not allowed; "
         "write true, false, strict or {min: 6}; and 2 more")),
        ("name: a\ntasks:\n- count: 0", "3: tasks[0].count: 0 is not allowed; want at least 1"),
        ("name: a\ntasks:\n- count: 10000001", "3: tasks[0].count: 10000001 is not allowed; want at most 10000000"),
        ("name: a\ntasks:\n- count: '5'", "3: tasks[0].count: '5' is not a whole number"),
        ("name: a\ntasks:\n- count: 1.5", "3: tasks[0].count: 1.5 is not a whole number"),
        ("name: a\ntasks:\n- count: true", "3: tasks[0].count: True is not a whole number"),
        ("name: a\ntasks:\n- command: ls -l", "3: tasks[0].command: 'ls -l' is not a list; write [a, b]"),
        ("name: a\ntasks:\n- resources: 3", "3: tasks[0].resources: 3 is not a mapping of names to values"),
        ("name: a\ntasks:\n- resources:\n    gpu: 1",
         "4: tasks[0].resources.gpu: unknown resource 'gpu'; this cell has cpu, memory"),
        ("name: a\ntasks:\n- resources:\n    cpu: 1\n    memory: -1Gi",
         "5: tasks[0].resources.memory: '-1Gi' is negative; amounts start at 0"),
        ("name: a\ntasks:\n- resources: {cpu: 1e30}",
         "3: tasks[0].resources.cpu: 1e+30 is too large; the most is 99999999999999 of the smallest unit"),
        ("name: a\ntasks:\n- resources: {cpu: [1]}",
         "3: tasks[0].resources.cpu: [1] is not an amount; write for example 500m, 2, 256Mi or 1Gi"),
        ("name: a\ntasks:\n- resources: {cpu: .nan}", "3: tasks[0].resources.cpu: nan is not a finite amount"),
        ("name: a\ntasks:\n- duration: 5 parsec",
         "3: tasks[0].duration: '5 parsec' is not a duration; write for example 30s, 5m, 1h30m or 250ms"),
        ("name: a\ntasks:\n- duration: 11000d", "3: tasks[0].duration: '11000d' is too long; the most is ten years"),
        ("name: a\ntasks:\n- constraints: [rack]",
         ("3: tasks[0].constraints[0]: constraint 'rack': position 5: "
         "expected ==, !=, <, <=, >, >=, in or not, found the end")),
        ("name: a\ntasks:\n- constraints: [\"platform = 'x86'\"]",
         ("3: tasks[0].constraints[0]: constraint \"platform = 'x86'\": position 10: "
         "expected ==, !=, <, <=, >, >=, in or not, found '='; write ==")),
        ("name: a\ntasks:\n- constraints:\n  - {prefer: \"a == 'x'\", weight: 101}",
         "4: tasks[0].constraints[0]: weight 101 is not allowed; want a whole number from 1 to 100"),
        ("name: a\ntasks:\n- constraints: [{perfer: a}]",
         "3: tasks[0].constraints[0]: unknown field 'perfer'; allowed: prefer, weight"),
        ("name: a\ntasks:\n- spread: [{domain: rack, most: 0}]",
         "3: tasks[0].spread[0]: most 0 is not allowed; want a whole number from 1 to 10000000"),
        ("name: a\ntasks:\n- spread: [{most: 2}]",
         "3: tasks[0].spread[0]: domain is missing; write {domain: rack, most: 2}"),
        ("name: a\ntasks:\n- restart: 3", "3: tasks[0].restart: 3 is not a mapping of fields"),
        ("name: a\ntasks:\n- restart: {tries: 3}",
         "3: tasks[0].restart.tries: unknown field; allowed: attempts, delay, factor, interval, elsewhere, lost"),
        ("name: a\ntasks:\n- restart: {attempts: 3, factor: 0}",
         "3: tasks[0].restart.factor: 0 is not allowed; want at least 1.0"),
        ("name: a\ntasks:\n- keep_output: 10",
         "3: tasks[0].keep_output: 10 is not a size; write for example 64Ki, 10Mi or 1Gi"),
        ("name: a\ntasks:\n- keep_output: 2Gi", "3: tasks[0].keep_output: '2Gi' is not allowed; want 4Ki to 1Gi"),
        ("name: a\ntasks:\n- time_limit: soon",
         "3: tasks[0].time_limit: 'soon' is not a duration; write for example 30s, 5m, 1h30m or 250ms"),
        ("name: a\ntasks:\n- different_machines: 1", "3: tasks[0].different_machines: 1 is not true or false"),
        ("name: a\ntasks:\n- near: [{job: db}, 3]",
         "3: tasks[0].near: 3 is not a job; write its name or {job: name, domain: rack}"),
        ("name: a\ntasks:\n- spread: ['']",
         "3: tasks[0].spread[0]: '' is not the name of a machine's attribute; write for example rack"),
        ("name: a\ngang: {min: 0}\ntasks: [{}]",
         "2: gang: {'min': 0} is not allowed; write for example {min: 6} or {min: 6, strict: true}"),
        ("name: a\ngang: {min: 2, size: 3}\ntasks: [{}]",
         "2: gang: {'min': 2, 'size': 3} is not allowed; write for example {min: 6} or {min: 6, strict: true}"),
        ("name: a\ngang: {strict: true}\ntasks: [{}]",
         "2: gang: {'strict': True} is not allowed; write for example {min: 6} or {min: 6, strict: true}"),
        ("name: a\ngang: {min: 3}\ntasks:\n- count: 2", "1: job a: a gang of at least 3 tasks; want 1 to its 2"),
        ("name: a\ngang: {min: 5001}\ntasks:\n- count: 9000",
         "1: job a: a gang of at least 5001 tasks; the most in one transaction is 5000"),
        ("name: a\ngang: true\ntasks:\n- count: 5001",
         "1: job a: a gang of 5001 tasks; the most in one transaction is 5000"),
        ("name: a\nname: b\ntasks: [{}]", "2: name: is there twice (first on line 1); keep one"),
        ("1: a", "1: a field's name must be text; put 1 in quotes"),
        ("- 3", "1: 3 is not a job; write fields such as name and tasks"),
        ("hello", "1: 'hello' is not a job; write fields such as name and tasks"),
        ("---\nname: a\n---\nname: b",
         "3: not readable as YAML or JSON: several documents, write the jobs as one list; fix it there"),
        ("- name: a\n  tasks: [{}]\n- name: a\n  tasks: [{}]",
         "3: name: 'a' is that of the job at jobs.yaml:1; choose another"),
        ("- {name: a, id: x, tasks: [{}]}\n- {name: b, id: x, tasks: [{}]}",
         "2: id: 'x' is that of the job at jobs.yaml:1; choose another"),
        ('name: a\ntasks:\n- command: ["a\\0b"]',
         r"3: tasks[0].command[0]: 'a\x00b' has the character U+0000, which cannot be shown; remove it"),
        ('name: a\nuser: "ad\\ea"\ntasks: [{}]',
         r"2: user: 'ad\x1ba' has the character U+001B, which cannot be shown; remove it"),
        ("name: a\ntasks:\n- constraints: [\u202ehas ssd]",
         r"3: tasks[0].constraints[0]: '\u202ehas ssd' has the character U+202E, which cannot be shown; remove it"),
        ('name: a\nenvironment:\n  "A\\tB": x\ntasks: [{}]',
         r"3: environment.AB: 'A\tB' has the character U+0009, which cannot be shown; remove it"),
        ('name: a\nenvironment: {A: "\\u200b"}\ntasks: [{}]',
         r"2: environment.A: '\u200b' has the character U+200B, which cannot be shown; remove it"),
        ("name: a\nspeculation: true\ntasks:\n- command: [x]",
         "2: speculation: a copy runs the command twice, perhaps at once; write repeatable: true beside each command"),
        ("name: a\nspeculation: true\ngang: true\ntasks: [{}]",
         "2: speculation: copies are placed one by one, and a gang as a whole; leave speculation out"),
        ("name: a\nspeculation: {}\nrequeue: never\ntasks: [{}]",
         "2: speculation: requeue: never places each task at most once; leave speculation out"),
        ("name: a\nspeculation: {factor: 0.5}\ntasks: [{}]",
         "2: speculation.factor: 0.5 is not allowed; want at least 1.0"),
        ("name: a\nkind: service\nspeculation: true\ntasks: [{}]",
         f"3: speculation: {ENDLESS}; leave speculation out"),
        ("name: a\nenvironment: {a=b: c}\ntasks: [{}]",
         "2: environment.a=b: 'a=b' is not the name of a variable; write one without ="),
        ("&a [*a]", "1: a contains itself; write it out"),
        ("name: a\ntasks: " + "[" * 100_000, "2: nested too deeply; no file needs more than five levels"),
        ("- " * 100_000, "1: nested too deeply; no file needs more than five levels"),
    ],
)  # a table # fmt: skip
def test_mistakes_name_line_field_and_what_is_allowed(text: str, message: str) -> None:
    assert refused(text) == f"jobs.yaml:{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "jobs.yaml: empty; write a job, with at least name and tasks"),
        ("# nothing", "jobs.yaml: empty; write a job, with at least name and tasks"),
        ("[]", "jobs.yaml: no job in it; write at least name and tasks"),
    ],
)
def test_files_without_a_job(text: str, message: str) -> None:
    assert refused(text) == message


@pytest.mark.parametrize(
    ("text", "line"), [("name: a\n\tb: 1", 2), ("name: *nobody", 1), ("name: a\ntasks: [\n", 3), ("a: b: c", 1)]
)
def test_what_is_no_yaml_says_where(text: str, line: int) -> None:
    said = refused(text)
    assert said.startswith(f"jobs.yaml:{line}: not readable as YAML or JSON: ")
    assert said.endswith("; fix it there")


def test_json_has_its_own_messages_and_lines() -> None:
    said = refused('{"name": "a",\n "tasks": [{"count": 5,}]}', "jobs.json")
    assert said.startswith("jobs.json:2: not readable as JSON: ")
    said = refused('{\n\t"name": "a",\n\t"tasks": [\n\t\t{"count": "5"}\n\t]\n}', "jobs.json")
    assert said == "jobs.json:4: tasks[0].count: '5' is not a whole number"
    said = refused('{"name": "a", "name": "b"}', "jobs.json")
    assert said == "jobs.json:1: name: is there twice (first on line 1); keep one"


def test_nothing_is_run_that_a_file_asks_for() -> None:
    assert "could not determine a constructor for the tag" in refused("!!python/object/apply:os.getcwd []")


def test_names_are_unique_across_files() -> None:
    files = [JobFile(name, "name: a\ntasks: [{}]") for name in ("one.yaml", "two.yaml")]
    with pytest.raises(BadInput, match=r"^two.yaml:1: name: 'a' is that of the job at one.yaml:1; choose another$"):
        load(files, Dimensions(), iter("xy").__next__)


def test_limits_of_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobfile_document, "MOST_VALUES", 100)
    laughs = "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b]\n"
    assert refused(laughs) == "jobs.yaml:3: more than 100 values; split it"
    monkeypatch.setattr(jobfile_document, "MOST_LETTERS", 1 << 20)
    assert refused("#" * (1 << 20) + "#") == "jobs.yaml: larger than 1 MiB; split it"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("30s", 30_000),
        ("250ms", 250),
        ("1h30m", 5_400_000),
        ("1.5s", 1500),
        ("2d", 172_800_000),
        (5, 5000),
        (0.25, 250),
        ("0", 0),
        (" 7 ", 7000),
    ],
)
def test_durations(text: str | float, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1x", "1 s", "1s2", "inf", "nan", "1e3", "٣s", "9" * 5000, "9" * 400])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(BadInput, match="is not a duration; write for example 30s, 5m, 1h30m or 250ms"):
        parse_duration(text)


def jobs_or_message(text: str, name: str) -> list[JobSpec] | str:
    try:
        return read(text, name)
    except BadInput as error:
        return str(error)


FIELDS = st.sampled_from(["name", "tasks", "count", "resources", "cpu", "gang", "locality"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["a", "5s", "1Gi"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_whatever_a_file_holds_it_is_jobs_or_one_line(value: Any) -> None:
    for name in ("x.json", "x.yaml"):
        found = jobs_or_message(json.dumps(value), name)
        if isinstance(found, str):
            assert "\n" not in found
            assert found.startswith(name)


@given(st.text(max_size=60))
def test_any_text_is_jobs_or_one_line(text: str) -> None:
    found = jobs_or_message(text, "x.yaml")
    assert not isinstance(found, str) or "\n" not in found


LONG = "я" * 65_536
"""131,072 bytes, one more than the kernel takes as a word."""


@pytest.mark.parametrize(
    ("fields", "tasks", "said"),
    [
        ({}, {"command": ["echo", LONG]}, "tasks[0].command[1]: 131,072 bytes; the most is 131,071"),
        ({}, {"health": {"command": [LONG]}}, "tasks[0].health.command[0]: 131,072 bytes"),
        ({"update": {"health": {"command": [LONG]}}}, {}, "update.health.command[0]: 131,072 bytes"),
        ({"environment": {"NAME": "a" * 131_070}}, {}, "environment.NAME: 131,075 bytes with its name"),
        ({"environment": {f"V{i}": "я" * 65_500 for i in range(20)}}, {}, "tasks[0].command: 2,620,"),
        ({}, {"command": ["echo", *["a" * 20_000] * 200]}, "tasks[0].command: 4,001,813 bytes with the environment"),
        ({}, {"health": {"command": ["echo", *["a" * 20_000] * 200]}}, "tasks[0].health.command: 4,001,813 bytes"),
    ],
    ids=["word", "health", "readiness", "variable", "variables", "words", "health words"],
)
def test_what_no_program_starts_with_is_refused(fields: dict[str, Any], tasks: dict[str, Any], said: str) -> None:
    job = {"name": "web", "kind": "service", **fields, "tasks": [{"command": ["true"], **tasks}]}
    with pytest.raises(BadInput, match=re.escape(said)) as refused:
        load([JobFile("web.json", json.dumps(job), is_json=True)], Dimensions(), lambda: "web")
    assert str(refused.value).startswith("web.json:1: ")
