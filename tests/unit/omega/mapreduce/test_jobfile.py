"""MapReduce jobs in job files: what they may say, and the one line that says what is wrong with them."""

from dataclasses import replace
from pathlib import Path

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec
from omega.cellstate.resources import Dimensions
from omega.jobfile import mapreduce
from omega.jobfile.reader import JobFile, load
from omega.mapreduce.plan import MapReducePlan
from omega.schedulers.constraints.locality import Place

WORDS = """
name: words
kind: mapreduce
workers: 4
resources: {cpu: 500m, memory: 256Mi}
constraints: ["shared == 'yes'"]
precedence: 10
environment: {LC_ALL: C}
input: {files: [texts/*.txt], shard: 1Ki}
map: {command: [python3, split.py]}
reduce: {command: [python3, add.py], count: 3}
output: counts
"""
NUMBERS = """
name: primes
kind: mapreduce
input: {ranges: 0-9999}
map: {command: [factor]}
reduce: {command: [cat]}
output: /data/primes
scratch: /data/scratch
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with two texts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "b.txt").write_bytes(b"b" * 1000)
    (tmp_path / "texts" / "a.txt").write_bytes(b"a" * 1500)
    return tmp_path


def read(text: str) -> JobSpec:
    (found,) = load([JobFile("jobs.yaml", text, local=True)], Dimensions(), lambda: "made")
    return found


def refused(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        read(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_field(here: Path) -> None:
    spec = read(WORDS)
    workers, surplus = spec.groups
    assert (spec.kind, spec.precedence, spec.spec["environment"]) == ("mapreduce", 10, {"LC_ALL": "C"})
    assert (workers.need, workers.count) == ((500, 256), 4)
    assert workers.spec["command"] == ["omega", "mapreduce", "worker"]
    assert workers.spec["constraints"] == ["shared == 'yes'"]
    assert surplus == replace(workers, count=0, spec={**workers.spec, "name": "surplus"}, optional=True)
    assert not workers.optional
    assert workers.spec["restart"]["attempts"] == 3
    plan = MapReducePlan.read(spec.spec)
    assert plan == MapReducePlan(
        ["python3", "split.py"],
        ["python3", "add.py"],
        3,
        1024,
        str(here / "counts"),
        str(here / "counts/.scratch"),
        [(str(here / "texts/a.txt"), 1500), (str(here / "texts/b.txt"), 1000)],
        roots=((str(here / "texts"), False),),
    )
    assert plan.maps == 3


def test_defaults() -> None:
    spec = read(NUMBERS)
    plan = MapReducePlan.read(spec.spec)
    assert plan is not None
    assert (spec.groups[0].count, plan.reduces, plan.shard, plan.maps) == (1, 1, 1000, 10)
    assert (plan.output, plan.scratch, plan.files, plan.numbers) == ("/data/primes", "/data/scratch", [], "0-9999")
    assert MapReducePlan.read(
        read(WORDS.replace(", count: 3", "").replace(", shard: 1Ki", "")).spec
    ) == MapReducePlan.read(read(WORDS.replace("count: 3", "count: 4").replace("1Ki", "8MiB")).spec)


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ("input: {files: [texts/*.txt], shard: 1Ki}", "", "jobs.yaml:2: input: is missing"),
        (
            "files: [texts/*.txt]",
            "files: [no/*]",
            "jobs.yaml:2: input: no file matches 'no/*'; names are relative to the",
        ),
        ("files: [texts/*.txt]", "file: [a]", "jobs.yaml:9: input.file: unknown field; did you mean files? allowed: f"),
        ("files: [texts/*.txt]", "files: [texts/a.txt], ranges: 0-9", "jobs.yaml:9: input: want either files or range"),
        ("files: [texts/*.txt], ", "", "jobs.yaml:9: input: want either files or ranges"),
        ("shard: 1Ki", "shard: none", "jobs.yaml:9: input.shard: 'none' is not a size; write for example 8Mi"),
        ("shard: 1Ki", "shard: 0", "jobs.yaml:9: input.shard: 0 is not a size"),
        ("files: [texts/*.txt]", "ranges: 9-0", "jobs.yaml:9: input.ranges: '9-0': numbers rise, and none"),
        ("files: [texts/*.txt]", "ranges: '0-5,5'", "jobs.yaml:9: input.ranges: '0-5,5': numbers rise, and none"),
        ("files: [texts/*.txt]", "ranges: many", "jobs.yaml:9: input.ranges: 'many' is not a range of numbers; write"),
        ("shard: 1Ki", "ranges: 0-999999, shard: 1", "jobs.yaml:9: input: want either files or ranges"),
        ("files: [texts/*.txt], shard: 1Ki", "ranges: 0-999999, shard: 1", "jobs.yaml:2: input: 1000000 shards, the m"),
        ("map: {command: [python3, split.py]}", "map: {command: []}", "jobs.yaml:10: map.command: [] is not a list"),
        ("map: {command: [python3, split.py]}", "", "jobs.yaml:2: map: is missing"),
        ("count: 3", "count: 0", "jobs.yaml:11: reduce.count: 0 is not allowed; want at least 1"),
        ("output: counts", "", "jobs.yaml:2: output: is missing"),
        ("workers: 4", "workers: none", "jobs.yaml:4: workers: 'none' is not a whole number"),
        ("workers: 4", "workers: 4\ntasks: [{}]", "jobs.yaml:5: tasks: a job of kind mapreduce has workers, map"),
        ("cpu: 500m", "gpu: 1", "jobs.yaml:5: resources.gpu: unknown resource 'gpu'; this cell has cpu, memory"),
        ("workers: 4", "worker: 4", "jobs.yaml:4: worker: unknown field; did you mean workers?"),
    ],
)
def test_what_is_wrong(line: str, instead: str, said: str) -> None:
    assert line in WORDS
    assert refused(WORDS.replace(line, instead)).startswith(said)


def test_an_output_that_holds_an_answer(here: Path) -> None:
    (here / "counts").mkdir()
    read(WORDS)
    (here / "counts" / "part-00000").touch()
    assert "holds the result of an earlier run; remove it" in refused(WORDS)


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ("output: counts", "output: /etc/passwd", "output: /etc/passwd is not a directory; name a directory"),
        ("output: counts", "output: /etc/passwd/x", "output: /etc/passwd is not a directory; name a directory"),
        ("output: counts", "output: counts\nscratch: texts/a.txt", "scratch: HERE/texts/a.txt is not a directory"),
        ("output: counts", "output: texts", "output: HERE/texts is within the input texts/*.txt; name a directory"),
        ("memory: 256Mi", "memory: 64Mi", "resources.memory: 64Mi is too little for a worker, which takes 96Mi"),
        ("texts/*.txt", "t*", "input: 't*' matches directories only, such as 'texts'; name the files in them"),
        ("texts/*.txt", "empty", "input: 'empty' is a directory without files; write empty/**/* for those below it"),
    ],
)
def test_what_cannot_work_is_refused_at_once(here: Path, line: str, instead: str, said: str) -> None:
    if "empty" in instead:
        (here / "empty" / "below").mkdir(parents=True)
    assert said.replace("HERE", str(here)) in refused(WORDS.replace(line, instead))


@pytest.mark.parametrize(
    ("files", "output", "fine"),
    [
        ("texts/*.txt", "texts/counts", True),
        ("texts/a.txt", "texts/counts", True),
        ("texts/**/*.txt", "texts/counts", False),
        ("texts", "texts/counts", True),
        ("texts", "texts", False),
        ("t*/a.txt", "counts/x", False),
    ],
)
def test_an_output_within_the_input(files: str, output: str, fine: bool) -> None:
    text = WORDS.replace("texts/*.txt", files).replace("output: counts", f"output: {output}")
    if fine:
        read(text)
    else:
        assert f"is within the input {files}; name a directory outside it" in refused(text)


def test_a_directory_stands_for_the_files_in_it(here: Path) -> None:
    (here / "texts" / ".hidden").touch()
    (here / "texts" / "_SUCCESS").touch()
    plan = MapReducePlan.read(read(WORDS.replace("texts/*.txt", "texts")).spec)
    assert plan is not None
    assert [Path(path).name for path, _ in plan.files] == ["a.txt", "b.txt"]


def test_what_of_a_directory_is_left_out_is_counted(here: Path) -> None:
    for name in (".hidden", "_SUCCESS", "_logs"):
        (here / "texts" / name).touch()
    (here / "texts" / "below").mkdir()
    plan = MapReducePlan.read(read(WORDS.replace("texts/*.txt", "texts")).spec)
    assert plan is not None
    assert plan.left_out == ((str(here / "texts"), 3, 1),)
    (here / "none").mkdir()
    (here / "none" / "_all").touch()
    assert "1 begin with . or _, which are left out; name them" in refused(WORDS.replace("texts/*.txt", "none"))
    named = MapReducePlan.read(read(WORDS.replace("texts/*.txt", "none/_all")).spec)
    assert named is not None
    assert [path for path, _ in named.files] == [str(here / "none" / "_all")]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("b[1].txt", ["b[1].txt"]),
        ("'b[[]1].txt'", ["b[1].txt"]),
        ("b[12].txt", ["b1.txt", "b2.txt"]),
        ("d[1]", ["c.txt"]),
        ("'d[[]1]/*.txt'", ["c.txt"]),
        ("what?.txt", ["what?.txt"]),
    ],
)
def test_a_name_that_is_there_is_no_pattern(here: Path, given: str, found: list[str]) -> None:
    (here / "d[1]").mkdir()
    for name in ("b[1].txt", "b1.txt", "b2.txt", "d[1]/c.txt", "what?.txt", "whats.txt"):
        (here / name).write_bytes(b"text")
    text = WORDS.replace("output: counts", "output: /nowhere/away")
    given = given if given.startswith("'") else f"'{given}'"
    plan = MapReducePlan.read(read(text.replace("texts/*.txt", given)).spec)
    assert plan is not None
    assert [Path(path).name for path, _ in plan.files] == found
    assert bool(plan.reads(str(here / "b"))) == ("/*" in given), "only a pattern in a pattern has all below it"
    located = near(f"paths: {{{given}: {{machines: [m0]}}}}", given)
    plan = MapReducePlan.read(read(located.replace("output: counts", "output: /nowhere/away")).spec)
    assert plan is not None
    assert [place.files for place in plan.places] == ([len(found)])


def test_a_pattern_of_a_directory_with_a_bracket_says_how_to_write_it(here: Path) -> None:
    (here / "d[1]").mkdir()
    said = refused(WORDS.replace("texts/*.txt", "'d[1]/*.txt'"))
    assert "the letter [ of a name is written [[] in a pattern" in said


def test_a_file_named_twice_counts_once() -> None:
    plan = MapReducePlan.read(read(WORDS.replace("texts/*.txt", "texts/*.txt, texts/a.txt")).spec)
    assert plan is not None
    assert len(plan.files) == 2


# Locality of the input


def near(locality: str, files: str = "texts/*.txt") -> str:
    return WORDS.replace("files: [texts/*.txt]", f"files: [{files}], locality: {{{locality}}}")


def test_the_locality_of_an_input(here: Path) -> None:
    """Files of one set of machines are together; the first path that matches a file counts; others come last."""
    for name in ("c", "d", "e"):
        (here / "texts" / f"{name}.txt").write_bytes(b"c" * 600)
    paths = "texts/b.txt: {nodes: [m2, m1]}, 'texts/[bd].*': {where: has data}, texts/c.txt: {machines: [m1, m2]}"
    spec = read(near(f"paths: {{{paths}}}, wait: [2s, 3s], domains: [zone]"))
    plan = MapReducePlan.read(spec.spec)
    assert plan is not None
    assert [Path(path).stem for path, _ in plan.files] == ["b", "c", "d", "a", "e"]
    assert plan.places == (Place(2, 2, ("m1", "m2"), ""), Place(1, 1, (), "has data"))
    assert plan.near == {"domains": ["zone"], "wait_ms": [2000, 3000]}
    assert plan.maps == 2 + 1 + 3
    workers, surplus = (group.spec for group in spec.groups)
    every = {"machines": ["m2", "m1"], "where": "has data", "domains": ["zone"]}
    assert workers["locality"] == {**every, "wait_ms": [2000, 3000]}
    assert surplus["locality"] == {**every, "wait_ms": []}, "surplus is placed at once or not at all"
    assert workers["spread"] == surplus["spread"] == ["machine"]


def test_the_locality_of_files_without_one_is_that_of_no_job() -> None:
    (workers, _) = read(WORDS).groups
    assert not {"locality", "spread"} & workers.spec.keys()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (near("paths: {}"), "jobs.yaml:9: input.locality.paths: {} is"),
        (near("wait: [1s]"), "jobs.yaml:9: input.locality.paths: is missing"),
        (near("paths: {texts/a.txt: {}}"), "jobs.yaml:9: input.locality: texts/a.txt: names no machine; write"),
        (near("paths: {texts/a.txt: {where: rack =}}"), "jobs.yaml:9: input.locality: texts/a.txt: constraint"),
        (near("paths: {texts/a.txt: {machines: [m1]}}, wait: [-1s]"), "jobs.yaml:9: input.locality.wait"),
        (near("paths: {texts/a.txt: {machines: [m1]}}, wait: [1s, 2s, 3s]"), "jobs.yaml:9: input.locality: texts/a"),
        (near("paths: {texts/a.txt: {machines: [m1], wait: [1s]}}"), "jobs.yaml:9: input.locality.paths.texts/a.txt"),
        (near("paths: {texts/x.txt: {machines: [m1]}}"), "jobs.yaml:2: input.locality: no file matches 'texts/x.txt'"),
        (
            near("paths: {texts/b.txt: {machines: [m1]}}", "texts/a.txt"),
            "jobs.yaml:2: input.locality: 'texts/b.txt' matches no file of the input; remove it",
        ),
        (
            NUMBERS.replace("0-9999", "0-9999, locality: {paths: {a: {machines: [m1]}}}"),
            "jobs.yaml:4: input: locality: is of files, and the input is ranges",
        ),
    ],
)
def test_what_is_wrong_with_a_locality(text: str, said: str) -> None:
    assert refused(text).startswith(said)


def test_the_number_of_sets_of_machines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapreduce, "MOST_PLACES", 1)
    text = near("paths: {texts/a.txt: {machines: [m1]}, texts/b.txt: {machines: [m2]}}")
    assert "input.locality: 2 sets of machines, the most is 1; join some of them" in refused(text)
