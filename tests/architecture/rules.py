"""Rules of the text that no other tool checks. Each yields `path:line: what; what to write instead`.

Lua has a file of its own, lua.py.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PurePosixPath

from tests.architecture.sources import FLOORS, ROOT, Source

MOST_LINES = 900
MOST_ALIKE = 3

DOORS = (
    "cellstate/clock.py", "cellstate/connections.py", "cellstate/server.py", "schedulers/process*", "omega/client/*",
    "omega/live*", "omega/embedded/*", "omega/queries/mirror/mirrors.py", "omega/queries/mirror/cell_mirror.py",
    "omega/web/*", "cli/*", "benchmarks/*", "tests/*",
)  # fmt: skip
"""Where time passes and processes start. Everything else must run the same in real and in virtual time."""
CLOCKS = {
    "time": "take the time as an argument or from an effect's answer",
    "sched": "yield an effect",
    "threading": "yield an effect",
    "signal": "yield an effect",
    "subprocess": "start processes in omega/live*.py",
    "multiprocessing": "start processes in omega/live*.py",
}
CLOCK_CALLS = ("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today")

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SEEDED = ("random.Random", "numpy.random.default_rng", "numpy.random.SeedSequence")
RANDOM_NAMES = (*SEEDED, "numpy.random.Generator", "numpy.random.BitGenerator", "numpy.random.PCG64")

TALK = {
    "print": "return the text; cli prints it",
    "exit": "raise an OmegaError; cli turns it into an exit code",
    "quit": "raise an OmegaError; cli turns it into an exit code",
    "sys.exit": "raise an OmegaError; cli turns it into an exit code",
    "os._exit": "raise an OmegaError; cli turns it into an exit code",
    "SystemExit": "raise an OmegaError; cli turns it into an exit code",
}

ENDS = {
    ("omega/live/member.py", "SystemExit"), ("omega/web/member.py", "SystemExit"),
    ("omega/live/agent/guard.py", "os._exit"),
    ("omega/live/agent/output_files.py", "os._exit"),
    ("omega/live/processes/watch.py", "os._exit"),
}  # fmt: skip
"""The entries of the processes that a supervisor starts: their exit code is the result. A guard and a watch fork
processes that must not return into their own loops.
"""

OPAQUE = ("pickle", "marshal", "shelve", "dill", "cloudpickle")
UNSAFE = {
    "eval": "parse what is allowed, refuse the rest",
    "exec": "parse what is allowed, refuse the rest",
    "os.system": "subprocess.run with a list",
    "os.popen": "subprocess.run with a list",
    "subprocess.getoutput": "subprocess.run with a list",
    "subprocess.getstatusoutput": "subprocess.run with a list",
    "yaml.load_all": "yaml.safe_load_all",
    "yaml.full_load": "yaml.safe_load",
    "yaml.full_load_all": "yaml.safe_load_all",
    "yaml.unsafe_load": "yaml.safe_load",
    "yaml.unsafe_load_all": "yaml.safe_load_all",
}

TWINS = ("redis", "memory", "audit")
"""Beginnings of module names in cellstate: the store, its twin and the audit, each written by another hand."""

ASSEMBLY = ("cellstate/redis/*", "cellstate/store.py")
"""Where cells on a server are made."""

OLD_NAMES = re.compile(
    r"""(?:^\s*(?:from|import)\ |["'`=]|-m\ )"""  # where a module is imported or named
    r"""(cellstate|schedulers|cli)(?:\.[a-z_]+(?:[.:"'`]|\ |$)|\ import\ |$)""",
    re.VERBOSE,
)
"""Imports and names of modules under which the layers would be a second copy; paths (cellstate/keys.py) are none."""

HOMES = re.compile(r"(?<![\w.:/-])(?:/(?:home/(?!(?:ada|me|someone|user|you)\b)|(?:root|Users|work)/)|[A-Z]:\\Users\b)")
"""Made-up people (/home/someone) may live in examples and tests."""
RULE_NUMBERS = re.compile(r"\bsemantics \d+(?:(?:, | and )\d+)*")
PAGES = re.compile(r"(?<![\w./:])(?!FILE\b)[\w./-]+\.md\b")
"""FILE.md stands for any, in the help of a command."""
BESIDE = "../" + "shared"
BESIDE_ALLOWED = ("tests/conftest.py",)  # the fixture that finds it for all tests


def long_files(source: Source) -> Iterator[str]:
    """A file is read in one sitting."""
    if len(source.lines) > MOST_LINES:
        yield f"{source.path}:{MOST_LINES + 1}: {len(source.lines)} lines, the most is {MOST_LINES}; split it by idea"


def exchangeable(source: Source) -> Iterator[str]:
    """Values of one type that are passed by position can be exchanged, and no checker sees it.

    Annotations are compared as they are written, `X | None` as `X`; `int` and `float`, or an alias and what it stands
    for, count apart. Click passes the options of a command by name.
    """
    if source.folder == "tests":
        return
    for item in source.nodes:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            by_name = any("command" in ast.unparse(each) for each in item.decorator_list)
            positional: Sequence[ast.arg | ast.AnnAssign] = [] if by_name else [*item.args.posonlyargs, *item.args.args]
            what, instead = "parameters", "pass them by name, after *"
        elif isinstance(item, ast.ClassDef):
            positional, what, instead = _positional_fields(item), "fields", "a dataclass with kw_only=True"
        else:
            continue
        types = (ast.unparse(each.annotation) for each in positional if each.annotation)
        for name, count in Counter(each.strip("'").removesuffix(" | None") for each in types).items():
            if count > MOST_ALIKE:
                yield (
                    f"{source.path}:{item.lineno}: {item.name} takes {count} {what} of type {name} by position, "
                    f"the most is {MOST_ALIKE}; {instead}"
                )


def _positional_fields(item: ast.ClassDef) -> list[ast.AnnAssign]:
    """Return the fields of a dataclass or named tuple that its constructor takes by position."""
    decorators = [ast.unparse(each) for each in item.decorator_list]
    if not any("dataclass" in each for each in decorators) and "NamedTuple" not in map(ast.unparse, item.bases):
        return []
    if any("kw_only=True" in each for each in decorators):
        return []
    found = []
    for field in (each for each in item.body if isinstance(each, ast.AnnAssign)):
        kind, value = ast.unparse(field.annotation), "" if field.value is None else ast.unparse(field.value)
        if kind == "KW_ONLY":
            break
        if not kind.startswith("ClassVar") and "init=False" not in value and "kw_only=True" not in value:
            found.append(field)
    return found


def talking(source: Source) -> Iterator[str]:
    """Only cli talks to people and ends the program."""
    if source.folder not in FLOORS or source.folder == "cli":
        return
    for line, name in source.imports:
        if name.split(".")[0] == "click":
            yield f"{source.path}:{line}: imports click; only cli knows the command line"
    for call, name in source.calls:
        if name in TALK and (source.path, name) not in ENDS:
            yield f"{source.path}:{call.lineno}: {name}; {TALK[name]}"
    for item in source.nodes:
        if isinstance(item, ast.Raise) and isinstance(item.exc, ast.Name) and item.exc.id in TALK:
            yield f"{source.path}:{item.lineno}: raises {item.exc.id}; {TALK[item.exc.id]}"


def clocks(source: Source) -> Iterator[str]:
    """Time, threads, signals and processes stay behind the doors."""
    if any(fnmatchcase(source.path, door) for door in DOORS):
        return
    for line, name in source.imports:
        module = name.split(".")[0]
        if module in CLOCKS:
            yield f"{source.path}:{line}: imports {module} outside {', '.join(DOORS[:5])}; {CLOCKS[module]}"
    for call, name in source.calls:
        if name in CLOCK_CALLS:
            yield f"{source.path}:{call.lineno}: {name}; {CLOCKS['time']}"


def randomness(source: Source) -> Iterator[str]:
    """An rng is an argument, from a named stream; never the generator all share."""
    instead = 'take an rng as an argument, made once as Random(f"{seed}/{name}")'
    used = [*source.imports]
    used += [(item.lineno, source.dotted(item)) for item in source.nodes if isinstance(item, ast.Attribute)]
    for line, name in used:
        if name.startswith(("random.", "numpy.random.")) and not name.startswith(RANDOM_NAMES):
            yield f"{source.path}:{line}: {name} draws from a generator that all share; {instead}"
    seeded = [(call, name) for call, name in source.calls if name in SEEDED]
    functions = [item for item in source.nodes if isinstance(item, FUNCTIONS)] if seeded else []
    inside = {id(item) for function in functions for item in ast.walk(function)}
    for call, name in seeded:
        if not (call.args or call.keywords):
            yield f"{source.path}:{call.lineno}: {name} without a seed; {instead}"
        elif id(call) not in inside:
            yield f"{source.path}:{call.lineno}: {name} at module level; {instead}"


def dangers(source: Source) -> Iterator[str]:
    """Nothing runs or unpacks what somebody else wrote."""
    for line, name in source.imports:
        if name.split(".")[0] in OPAQUE:
            yield f"{source.path}:{line}: imports {name.split('.')[0]}; write MessagePack or JSON"
    for call, name in source.calls:
        if name in UNSAFE:
            yield f"{source.path}:{call.lineno}: {name}; {UNSAFE[name]}"
        if name == "yaml.load" and not any("Safe" in source.dotted(value) for value in arguments(call)):
            yield f"{source.path}:{call.lineno}: yaml.load; yaml.safe_load, or a Loader derived from SafeLoader"
        for keyword in call.keywords:
            if isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
                if keyword.arg == "shell":
                    yield f"{source.path}:{call.lineno}: shell=True; pass a list of arguments"
                if keyword.arg == "allow_pickle":
                    yield f"{source.path}:{call.lineno}: allow_pickle=True; store plain arrays"


def arguments(call: ast.Call) -> list[ast.expr]:
    """All arguments of a call, named or not."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def twins(source: Source) -> Iterator[str]:
    """Twins that share code prove nothing; import-linter sees the main modules, this sees all their parts."""

    def family(module: str) -> str:
        name = module.removeprefix("omega.cellstate.")
        return next((each for each in TWINS if name != module and re.split(r"[._]", name)[0] == each), "")

    own = family("omega." + source.path.removesuffix(".py").replace("/", "."))
    for line, name in source.imports:
        if own and family(name) not in ("", own):
            yield f"{source.path}:{line}: {own} imports {name}; share words (model, transaction), never decisions"


def implementations(source: Source) -> Iterator[str]:
    """Callers name the class of the store as a type at most; one module makes or opens cells."""
    if source.folder == "tests" or any(fnmatchcase(source.path, where) for where in ASSEMBLY):
        return
    for number, line in enumerate(source.lines, 1):
        if re.search(r"\bRedisCell[.(]", line):
            yield f"{source.path}:{number}: makes a RedisCell; open cells with omega.cellstate.store"


def old_names(source: Source) -> Iterator[str]:
    """One package is imported; the folders of the other layers are linked into it."""
    for number, line in enumerate(source.lines, 1):
        for name in OLD_NAMES.findall(line):
            yield f"{source.path}:{number}: {name} is no top-level package; its import name is omega.{name}"


def rule_numbers(source: Source) -> Iterator[str]:
    """A rule that is named by its number can be looked up."""
    for number, line in enumerate(source.lines, 1):
        for named in RULE_NUMBERS.findall(line):
            for rule in set(map(int, re.findall(r"\d+", named))) - numbered_rules():
                yield f"{source.path}:{number}: semantics {rule}; docs/semantics.md has no rule of that number"


def pages(source: Source) -> Iterator[str]:
    """A page that the code names is there to be read."""
    if source.folder == "tests":
        return
    for number, line in enumerate(source.lines, 1):
        for page in PAGES.findall(line):
            if not any((root / page).is_file() for root in (ROOT, (ROOT / source.path).parent)):
                yield f"{source.path}:{number}: {page} is no page of this project; name one that a reader can open"


@cache
def numbered_rules() -> frozenset[int]:
    """The numbers of the rules in docs/semantics.md."""
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    return frozenset(int(found) for found in re.findall(r"^\| (\d+) \|", text, re.MULTILINE))


def machine_paths(source: Source) -> Iterator[str]:
    """No path of anybody's own machine; what lies beside the checkout is found by one fixture."""
    for number, line in enumerate(source.lines, 1):
        if found := HOMES.search(line):
            yield f"{source.path}:{number}: a path of somebody's machine, {found[0]}…; derive it from a setting"
        if BESIDE in line and source.path not in BESIDE_ALLOWED:
            yield f"{source.path}:{number}: {BESIDE}; in tests use the fixture shared_directory, elsewhere an argument"


EMPTY_NAMES = ("utils", "util", "helpers", "helper", "common", "misc", "base", "manager")
"""Names of modules and folders that say nothing and so collect everything."""


def empty_names(source: Source) -> Iterator[str]:
    """No module or folder has an empty name."""
    path = PurePosixPath(source.path)
    for name in (*path.parts[:-1], path.stem.removeprefix("test_")):
        if name.strip("_").lower() in EMPTY_NAMES:
            yield f"{source.path}:1: a file named {name!r}; name it after the idea it holds"
