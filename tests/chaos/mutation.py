"""Mutants of the parts that decide, run against their tests: ``python -m tests.chaos.mutation SEED COUNT``.

A mutant is one file with one place changed by one operator: a comparison flipped, a bound moved by one, ``and`` for
``or``, a constant raised, a truth value negated, a statement removed. A seeded generator draws the mutants; each runs
against the tests of its file in a copy of the tree, two at a time (another number: ``AT_ONCE`` in the environment). A
mutant that passes all of them survives and is printed. What an object prints of itself (``repr=False``) is not changed.
A third argument names another sample of files: ``scheduling`` (the pending queue, the loop and the orderings) or
``edges`` (the pending queue, preemption, rolling updates and the guard of tasks). Verdicts are appended to
`benchmarks/mutants.jsonl`; a run that is started again at the same commit of the product tests the other mutants alone.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.chaos.shards import commit

TREE = Path(__file__).parents[2]
RECORDS = TREE / "benchmarks/mutants.jsonl"
SECONDS = 600
"""Time limit of one run of a mutant's tests; they take less than 60 s. A mutant that needs more is found: it loops."""
AT_ONCE = int(os.environ.get("AT_ONCE", "2"))
"""Number of mutants that run at the same time."""
NICENESS = 10
SKIPPED = (".git", ".venv", ".hypothesis", "__pycache__", ".*_cache", "build", "figures")
"""What no mutant's tests read, so it is not copied."""
OPTIONS = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0",
           "--hypothesis-profile=unshrunk")  # fmt: skip
EXAMPLES = "100"
"""Histories of the long form of a property test, which a mutant meets that passed everything else."""

STORE, TWIN = ("-k", "resp3"), ("-k", "memory")
SAME = ("tests/property/test_histories.py", "tests/property/test_twin.py")


def contract(*names: str) -> tuple[str, ...]:
    """Paths of the tests of the contract, these first; pytest keeps the order of files, not of folders."""
    first = [f"tests/contract/test_{name}.py" for name in names]
    rest = sorted(str(path.relative_to(TREE)) for path in (TREE / "tests/contract").glob("test_*.py"))
    return (*first, *(path for path in rest if path not in first))


VERDICTS = contract("verdicts", "placements", "limits", "machines", "losses", "jobs", "waking")
AGENTS = contract("agents", "members", "losses", "housekeeping", "machines")
JOBS = contract("jobs", "waits", "updates", "housekeeping", "losses", "changes")
SHARDS = contract("shards")
AUDIT = ("tests/unit/cellstate/audit",)
FAST = (
    "tests/property/test_simulated.py",
    "tests/unit/omega/test_blocks.py",
    "tests/unit/cellstate",
    "--ignore=tests/unit/cellstate/audit",
)
FAST_PATH, SCRIPTS = ("tests/property/test_fast_path.py",), TREE / "cellstate/lua"
CHUNKS = ("tests/property/test_loss_times.py",)
ROLLING = ("tests/unit/schedulers/test_rolling.py", "tests/unit/schedulers/test_rolling_ended.py")
WORLDS = ("tests/property/test_rolling_worlds.py",)
UPDATES = ("tests/cli/test_job_update.py",)
TESTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "cellstate/lua/commit.lua": ((*VERDICTS, *STORE), SAME),
    "cellstate/lua/parts/tasks.lua": ((*VERDICTS, *STORE), SAME),
    "cellstate/lua/parts/losses.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/parts/placements.lua": ((*VERDICTS, *STORE), SAME, CHUNKS),
    "cellstate/lua/parts/ranges.lua": ((*VERDICTS, *STORE), SAME),
    **{f"cellstate/lua/fast_path/{path.name}": (FAST_PATH, SAME) for path in sorted(SCRIPTS.glob("fast_path/*.lua"))},
    "cellstate/lua/parts/leases.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/deregister_executor.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/renew_executor.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/register_agent.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/register_executor.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/online.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/unfit.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/parts/serving.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/register_scheduler.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/renew_scheduler.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/deregister_scheduler.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/machine.lua": ((*AGENTS, *STORE), SAME),
    "cellstate/lua/resize.lua": ((*JOBS, *STORE), SAME),
    "cellstate/lua/update.lua": ((*JOBS, *STORE), SAME),
    "cellstate/lua/settle.lua": ((*JOBS, *STORE), SAME),
    "cellstate/lua/housekeep.lua": ((*JOBS, *STORE), SAME),
    "cellstate/lua/retire.lua": ((*JOBS, *STORE), SAME),
    "cellstate/memory/state.py": ((*VERDICTS, *TWIN), SAME, FAST),
    "cellstate/memory/commit.py": ((*VERDICTS, *TWIN), SAME, FAST),
    "cellstate/memory/tasks.py": ((*VERDICTS, *TWIN), SAME, FAST),
    "cellstate/memory/machines.py": ((*AGENTS, *TWIN), SAME, FAST),
    "cellstate/memory/jobs.py": ((*JOBS, *TWIN), SAME, FAST),
    "cellstate/memory/pools.py": ((*VERDICTS, *TWIN), SAME, FAST),
    "cellstate/memory/cell.py": ((*JOBS, *TWIN), SAME, FAST),
    "cellstate/memory/shards.py": ((*SHARDS, *TWIN), ("tests/property/test_shards.py",), SAME, FAST),
    "cellstate/rules.py": ((*VERDICTS, *TWIN), SAME, FAST),
    "cellstate/ranges.py": ((*JOBS, *TWIN), ("tests/property/test_ranges.py",), SAME, FAST),
    "omega/simulation/simulated_store.py": (FAST,),
    "cellstate/invariants.py": (AUDIT,), "cellstate/derive.py": (AUDIT,), "cellstate/fold.py": (AUDIT,),
    "cellstate/verify.py": (AUDIT,),
    "schedulers/rolling.py": (ROLLING, WORLDS), "omega/updating.py": (ROLLING, WORLDS, UPDATES),
}  # fmt: skip
"""The files, and the arguments of each run of pytest that looks at one; those that find most come first."""
_OF_QUEUE = (
    "queue", "heads", "ready", "blocked", "choosing", "intake", "left_room", "limited", "notified", "orderings",
    "ageing", "together", "several",
)  # fmt: skip


def queue(stem: str = "queue") -> tuple[str, ...]:
    """Paths of the tests of the pending queue, those of one of its files first, slow ones last."""
    names = sorted(_OF_QUEUE, key=lambda name: name != stem)
    parts = [f"tests/unit/schedulers/queue/test_{name}.py" for name in names]
    return (*parts[:-3], "tests/unit/schedulers/test_loop.py", "tests/unit/schedulers/test_scheduler.py", *parts[-3:])


AROUND = tuple(
    f"tests/unit/schedulers/test_{name}.py"
    for name in ("waking", "resizing", "preempting", "pending_reasons", "stages", "fair_pools")
)
"""Sizing, preemption, reasons and requeueing, which use the queue."""
LIVE = (
    "tests/unit/schedulers/test_live.py", "tests/unit/schedulers/constraints/test_fetching.py",
    "tests/unit/schedulers/constraints/test_evaluation.py",
)  # fmt: skip
BLOCKED = ("tests/property/test_nothing_stays_blocked.py",)
POLICIES = ("tests/unit/schedulers/queue", "tests/contract/test_other_policies.py")
SCHEDULING: dict[str, tuple[tuple[str, ...], ...]] = {
    **{f"schedulers/queue/{path.name}": (queue(path.stem), AROUND, BLOCKED, LIVE)
       for path in sorted((TREE / "schedulers/queue").glob("[a-z]*.py"))},
    "schedulers/loop.py": (queue(), AROUND, BLOCKED, LIVE),
    "schedulers/ordering/without_pools.py": (POLICIES,),
}  # fmt: skip
"""As TESTS, for the files of a sample of their own."""
EVICTING = (
    "tests/unit/schedulers/test_preempting.py", "tests/unit/schedulers/test_stages.py",
    "tests/contract/test_preemption_policies.py", "tests/simulation/test_partitions.py",
    "tests/simulation/test_pool_protocol.py",
)  # fmt: skip
SIMULATED = tuple(
    f"tests/simulation/test_{name}.py"
    for name in ("preempting", "filling_pools", "jobs_of_a_pool", "legal_evictions", "nothing_undone",
                 "pool_scenarios")
)  # fmt: skip
JOBS_OF_POOLS = tuple(f"tests/simulation/test_{name}.py" for name in ("jobs_of_a_pool", "filling_pools"))
GUARD = ("tests/unit/omega/live/agent/test_guard.py",)
TASKS = ("tests/integration/test_agent_tasks.py",)
EDGES: dict[str, tuple[tuple[str, ...], ...]] = {
    **{path: (*runs, JOBS_OF_POOLS) for path, runs in SCHEDULING.items() if "/queue/" in path},
    **{f"schedulers/preemption/{path.name}": (EVICTING, SIMULATED, AROUND, LIVE)
       for path in sorted((TREE / "schedulers/preemption").glob("[a-z]*.py"))},
    "schedulers/rolling.py": TESTS["schedulers/rolling.py"],
    "omega/live/agent/guard.py": (GUARD, TASKS),
}  # fmt: skip
"""As TESTS: the queue, preemption, rolling updates and the guard of tasks."""
SAMPLES = {"scheduling": SCHEDULING, "edges": EDGES}
ALL = TESTS | SCHEDULING | EDGES
LONG_RUNS = {SAME: ("-m", "chaos", SAME[0]), FAST: ("-m", "chaos", "tests/property/test_simulated.py")}


def runs_of(path: str) -> list[tuple[str, ...]]:
    """The runs of a file in order, and then the long forms of its property tests."""
    return [*ALL[path], *(LONG_RUNS[run] for run in ALL[path] if run in LONG_RUNS)]


OPERATORS: tuple[tuple[str, str], ...] = (
    (r" <= ", " < "), (r" >= ", " > "), (r" < ", " <= "), (r" > ", " >= "), (r" == ", " != "), (r" [!~]= ", " == "),
    (r"\band\b", "or"), (r"\bor\b", "and"), (r" \+ 1\b", ""), (r" - 1\b", ""), (r"(?<= )0(?=[\s,)])", "1"),
    (r"(?<!strict=)\bTrue\b", "False"), (r"(?<!repr=)\bFalse\b", "True"), (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"), (r"\bnot (?=\w)", ""), (r"^( +)(?:self\.)?\w+\(.*\)$", r"\1"),
)  # fmt: skip

EQUIVALENT: dict[tuple[str, str], str] = {
    ("cellstate/lua/commit.lua", "if #evicting >= 0 then"): "an empty list of victims loads nothing",
    ("cellstate/fold.py", "if step != (0 if book.block == self._block else 1) and not (jump and step >= 1):"):
        "a machine comes back in a later version than the one in which it left, where a step of 1 is allowed anyway",
    ("cellstate/lua/parts/losses.lua", "if n >= 0 then"): "adds no task, twice",
    ("cellstate/lua/parts/losses.lua", "if loss.due > 1 and loss.due <= at_ms and loss.tasks ~= '-' then"):
        "differs within one millisecond of 1970",
    ("cellstate/lua/housekeep.lua", "if not due or due > tonumber(now) then return 1 end"):
        "an entry is due with the first, or (a gang) the last, of its tasks: nothing passes one earlier",
    ("cellstate/fold.py", "arrived: tuple[int, int] = (0, 1)"): "read of submitted jobs alone, which set it",
    ("cellstate/lua/housekeep.lua",
     "if not j or (j.state < HELD and j.delayed or j.placed) == 0 then done[#done + 1] = id end"):
        "an entry of a held job that is due leaves no delayed task",
    ("cellstate/memory/tasks.py", "if now - (c.ticks[0][0] if c.ticks else 1) < TICK_MS:"):
        "differs within one millisecond of 1970",
    ("cellstate/memory/cell.py",
     "elsewhere = (self._cell.M[index].runs[run][1] for run, index in g.runs.items() if run < 1)"):
        "no placement has id 0",
    ("cellstate/memory/cell.py",
     "Run(abs(placement), g.job.id, index, g.number, span_text(tasks), leaving=placement <= 0)"):
        "no placement has id 0",
    ("cellstate/memory/state.py",
     "self.state, self.executor, self.stamp, self.leaving = MachineState.UP, 0, 1, 0"): "set when the machine joins",
    ("omega/simulation/simulated_store.py",
     "if at <= 0 or ((end - at) * WHOLESALE > len(free) and copy.wholesale):"):
        "reads all machines instead of those that changed, with the same result",
    ("omega/simulation/simulated_store.py",
     "if at < 0 or ((end - at) * WHOLESALE >= len(free) and copy.wholesale):"):
        "reads all machines instead of those that changed, with the same result",
    ("schedulers/queue/intake.py", "if len(streams) >= 2 * len(states) + 64:"):
        "forgets lanes that are gone, of which nothing is read, one lane earlier",
    ("schedulers/queue/ready.py", "if work is not None or self.works.get(work.job.id) is work:"):
        "adds an entry of a job that was replaced, which its number excludes",
    ("schedulers/queue/ready.py", "if len(self._lanes) >= MANY:"):
        "finds the first of a few lanes in the way for many",
    ("schedulers/queue/shapes.py", "self._free += range(known + more - 1, known, -1)"):
        "leaves a line of each table unused",
    ("schedulers/queue/shapes.py", "if len(self._lanes) >= 2 * len(self.of) + 64:"):
        "forgets lanes without blocked jobs one lane earlier",
    ("schedulers/queue/intake.py", "if len(asked.lanes) >= 1:"):
        "takes the jobs of the only lane from a reply that has no others",
    ("schedulers/preemption/victims.py", "if all(amount < 0 for amount in missing):"):
        "looks at the other tasks too, none of which frees anything that is missing",
    ("schedulers/preemption/planning.py", "until = self.began(resident) + least if least >= 0.0 else 0.0"):
        "a task that began in the past is not kept by a minimum of 0 s",
    ("schedulers/preemption/plans.py", "if at >= self.snapshot.now:"): "differs at one instant of the clock",
    ("omega/live/agent/guard.py", "self._kill_foreign(places, supervisors_too=lease.last < at)"):
        "differs at one instant of the clock",
    ("omega/live/agent/guard.py", "self._kill_foreign(killed, supervisors_too=True)"):
        "their locks are free, so their supervisors have ended",
    ("omega/live/agent/guard.py", "if lease.end < at:"): "differs at one instant of the clock",
    ("omega/live/agent/guard.py", "if lease.last < at:"): "differs at one instant of the clock",
}  # fmt: skip
"""Mutants, by file and line as it is then, that do the same as the program, with the reason; they are not drawn."""
REMARK = re.compile(r"(?:  #| --) ")


class Mutant(NamedTuple):
    """A line of a file, as it was and as it is."""

    path: str
    line: int
    before: str
    after: str


def _without_texts(line: str, quote: str) -> str:
    """Replace what a line has between quotes by letters, as many."""
    parts = line.split(quote)
    return quote.join("x" * len(part) if i % 2 else part for i, part in enumerate(parts))


def mutants(path: str) -> Iterator[Mutant]:
    """Yield every mutant of a file that may be drawn; comments, texts, imports and decorators are left alone."""
    quoted = False
    for number, line in enumerate((TREE / path).read_text().splitlines()):
        marks = line.count('"""')
        if quoted or marks or line.lstrip().startswith(("#", "--", "@", "import ", "from ")):
            quoted ^= marks == 1
            continue
        code = _without_texts(REMARK.split(line)[0], '"' if path.endswith(".py") else "'")
        for pattern, other in OPERATORS:
            for found in re.finditer(pattern, code):
                now = line[: found.start()] + found.expand(other) + line[found.end() :]
                if path.endswith(".py") and not now.strip():
                    now = line[: len(line) - len(line.lstrip())] + "pass"
                if (path, now.strip()) not in EQUIVALENT:
                    yield Mutant(path, number, line, now)


def passes(arguments: Sequence[str], tree: Path) -> bool:
    """Whether the tests of one run of pytest pass in a copy of the tree, within the time limit."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(tree.parent)}
    environment |= {"EXAMPLES": EXAMPLES}
    tests = subprocess.Popen(
        [sys.executable, "-m", "pytest", *OPTIONS, *arguments], cwd=tree, env=environment, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return tests.wait(SECONDS) == 0
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"longer than {SECONDS} s: {' '.join(arguments[:2])}\n")
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(tests.pid, signal.SIGKILL)  # the server too, which may be in an endless loop
        tests.wait()


def survives(mutant: Mutant, tree: Path) -> bool:
    """Whether all tests of its file pass with a mutant in a copy of the tree."""
    file = tree / mutant.path
    text = file.read_text()
    lines = text.splitlines()
    lines[mutant.line] = mutant.after
    file.write_text("\n".join(lines) + "\n")
    try:
        return all(passes(arguments, tree) for arguments in runs_of(mutant.path))
    finally:
        file.write_text(text)


class Copies:
    """Copies of the tree, as many as run at a time."""

    def __init__(self, folder: Path) -> None:
        self.free = SimpleQueue[Path]()
        for number in range(AT_ONCE):
            copied = shutil.copytree(TREE, folder / str(number), symlinks=True, ignore=shutil.ignore_patterns(*SKIPPED))
            self.free.put(copied)

    @contextmanager
    def one(self) -> Iterator[Path]:
        """Yield a copy that nobody else uses."""
        tree = self.free.get()
        try:
            yield tree
        finally:
            self.free.put(tree)

    def survives(self, mutant: Mutant) -> bool:
        """Whether a mutant survives."""
        with self.one() as tree:
            return survives(mutant, tree)

    def check(self, arguments: Sequence[str]) -> None:
        """Raise SystemExit unless tests pass in a copy as it is, and fail when a file of theirs cannot be read."""
        path = next(path for path in ALL if arguments in runs_of(path))
        with self.one() as tree:
            if not passes(arguments, tree):
                raise SystemExit(f"{' '.join(arguments)} fails without a mutant; run it")
            if survives(Mutant(path, 0, "", "("), tree):
                raise SystemExit(f"{' '.join(arguments)} passes when {path} cannot be read; it reads another copy")


def run(chosen: Sequence[Mutant]) -> Iterator[tuple[Mutant, bool]]:
    """Yield each mutant and whether it survives, in order."""
    with TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        trees = Copies(Path(folder))
        runs = {frozenset(run): run for mutant in chosen for run in runs_of(mutant.path)}
        list(pool.map(trees.check, runs.values()))
        yield from zip(chosen, pool.map(trees.survives, chosen), strict=True)


def sample(seed: str, count: int, files: Iterable[str] = TESTS) -> list[Mutant]:
    """Draw mutants of some files."""
    return Random(seed).sample([mutant for path in files for mutant in mutants(path)], count)


def tested(at: str) -> dict[str, bool]:
    """Whether each mutant survived that was tested at a commit."""
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    return {each["mutant"]: each["survives"] for each in map(json.loads, lines) if each["commit"] == at}


def name(mutant: Mutant) -> str:
    return f"{mutant.path}:{mutant.line + 1}: {mutant.before.strip()} -> {mutant.after.strip()}"


def say(mutant: str, *, alive: bool) -> None:
    sys.stdout.write(f"{'survives' if alive else 'found'} {mutant}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os.nice(NICENESS)
    drawn = sample(sys.argv[1], int(sys.argv[2]), SAMPLES[sys.argv[3]] if sys.argv[3:] else TESTS)
    at = commit()
    known = tested(at)
    for each in map(name, drawn):
        if each in known:
            say(each, alive=known[each])
    for mutant, alive in run([each for each in drawn if name(each) not in known]):
        with RECORDS.open("a") as out:
            out.write(json.dumps({"commit": at, "mutant": name(mutant), "survives": alive}) + "\n")
        say(name(mutant), alive=alive)
