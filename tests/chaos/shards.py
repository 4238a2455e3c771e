"""The long tests in six parts: ``python -m tests.chaos.shards 2/6``, and ``report``, which parts are missing.

A unit is a file; in tests/chaos, whose files take minutes, a test function, or one case of a long one. Units are
divided by the seconds that earlier commits recorded, the longest first into the emptiest shard. A line of
`benchmarks/chaos.jsonl` is the result of one unit at a commit; a shard that is started again runs the units that have
not passed at this commit. The samples of mutants (``make mutants``) take hours and are no part of a shard.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

TREE = Path(__file__).parents[2]
RECORDS = TREE / "benchmarks/chaos.jsonl"
TESTED = ("cellstate", "schedulers", "omega", "cli", "deploy", "pyproject.toml", "requirements.lock")
"""The product: a commit that changes none of these needs no new run, but of the tests that it changes."""
SHARDS = 6
UNKNOWN_SECONDS = 40.0
"""Of a unit that has no record yet."""
HOUR = 3_600
BY_CASE = (
    "tests/chaos/test_pool_scenarios.py::test_scenario",
    "tests/chaos/test_chaos.py::",
    "tests/chaos/test_fair_shares.py::",
)
"""Tests of many minutes, of which each case is a unit."""
COUNTED = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


def pytest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-m", "chaos", "-o", f"timeout={HOUR}", *arguments]


def units() -> list[str]:
    """The units that are collected, in order."""
    done = subprocess.run(pytest("--collect-only", "-q"), cwd=TREE, capture_output=True, text=True, check=True)
    found = [line for line in done.stdout.splitlines() if line.startswith("tests/")]
    parts = [unit_of(each) for each in found]
    return [each for each in dict.fromkeys(parts) if not each.startswith("tests/chaos/test_mutation.py")]


def unit_of(test: str) -> str:
    """The unit of a collected test."""
    if test.startswith(BY_CASE):
        return test
    return test.partition("[")[0] if test.startswith("tests/chaos/") else test.partition("::")[0]


def commit() -> str:
    """The newest commit that changed what is tested; with a `+` where files differ from it."""
    named = subprocess.run(
        ["git", "log", "-1", "--format=%h", "--abbrev=10", "--", *TESTED],
        cwd=TREE, capture_output=True, text=True, check=True,
    )  # fmt: skip
    same = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", *TESTED], cwd=TREE, check=False).returncode == 0
    return named.stdout.strip() + ("" if same else "+")


def records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.exists() else []


def divide(parts: Iterable[str], seconds: Mapping[str, float], shards: int) -> list[list[str]]:
    """Divide units into shards of about the same time; the same for the same records."""
    times, divided = [0.0] * shards, [list[str]() for _ in range(shards)]
    for unit in sorted(parts, key=lambda each: (-seconds.get(each, UNKNOWN_SECONDS), each)):
        emptiest = times.index(min(times))
        times[emptiest] += seconds.get(unit, UNKNOWN_SECONDS)
        divided[emptiest].append(unit)
    return divided


def of_shards(at: str, shards: int) -> list[list[str]]:
    """The units of each shard at a commit; its own records do not change them."""
    seconds = {each["unit"]: each["seconds"] for each in records() if each["commit"] != at}
    return divide(units(), seconds, shards)


def results(at: str) -> dict[str, dict[str, Any]]:
    """The last result of each unit at a commit."""
    return {each["unit"]: each for each in records() if each["commit"] == at}


def run_unit(unit: str) -> dict[str, Any]:
    """Run one unit in a process of its own; its output goes through.

    Its temporary folder is its own, too: a run of pytest removes the old folders of others.
    """
    began = time.monotonic()
    last, folder = "", Path(tempfile.gettempdir()) / f"omega-unit-{os.getpid()}"
    command = pytest("-q", f"--basetemp={folder}", unit)
    with subprocess.Popen(command, cwd=TREE, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout or ():
            sys.stdout.write(line)
            last = line
    status = running.returncode
    shutil.rmtree(folder, ignore_errors=True)
    counts = {name.removesuffix("s"): int(number) for number, name in COUNTED.findall(last)}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    return {
        "passed": counts.get("passed", 0),
        "failed": max(failed, int(status not in (0, 5))),  # 5: nothing was collected
        "skipped": counts.get("skipped", 0),
        "seconds": round(time.monotonic() - began, 1),
    }


def run(shard: int, shards: int) -> int:
    """Run what a shard has not passed yet; return how many units failed."""
    at = commit()
    passed = {unit for unit, result in results(at).items() if not result["failed"]}
    failures = 0
    for unit in of_shards(at, shards)[shard - 1]:
        if unit in passed:
            continue
        sys.stdout.write(f"-- {shard}/{shards} {unit}\n")
        sys.stdout.flush()
        result = run_unit(unit)
        failures += result["failed"] > 0
        with RECORDS.open("a") as out:
            out.write(json.dumps({"commit": at, "shard": f"{shard}/{shards}", "unit": unit, **result}) + "\n")
    return failures


def report() -> Iterator[str]:
    """Yield the lines of the report; the first word of each tells whether the shard is complete and passed."""
    at = commit()
    known = results(at)
    yield f"commit {at}, shards of benchmarks/chaos.jsonl"
    for number, shard in enumerate(of_shards(at, SHARDS), 1):
        missing = [unit for unit in shard if unit not in known]
        failed = [unit for unit in shard if unit in known and known[unit]["failed"]]
        took = sum(known[unit]["seconds"] for unit in shard if unit in known)
        word = "missing" if missing else "failed " if failed else "passed "
        yield f"{word} {number}/{SHARDS}: {len(shard) - len(missing)} of {len(shard)} units run in {took:,.0f} s"
        yield from (f"  failed  {unit}" for unit in failed)
        yield from (f"  missing {unit}" for unit in missing)


def main(words: list[str]) -> int:
    if words == ["report"]:
        lines = list(report())
        sys.stdout.write("\n".join(lines) + "\n")
        return int(any(line.startswith(("missing", "failed ")) for line in lines))
    found = re.fullmatch(r"(\d+)/(\d+)", words[0] if len(words) == 1 else "")
    shard, shards = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= shard <= shards:
        sys.stderr.write(f"name a shard as 1/{SHARDS} to {SHARDS}/{SHARDS}, or `report`\n")
        return 2
    os.environ.pop("PYTEST_ADDOPTS", None)
    return int(run(shard, shards) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
