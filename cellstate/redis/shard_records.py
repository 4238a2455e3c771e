"""The shards of a MapReduce job as stored (lua/parts/shards.lua), checked for consistency."""

import re
from collections.abc import Mapping

from omega.cellstate.ranges import indices
from omega.cellstate.shards import PHASES, TRIES

_PHASE = re.compile(r"(\d+) (\S+) (\d+) (\d+)")
_FINISHED = re.compile(r"([mr])(0|[1-9]\d*)")
_HELD = re.compile(r" (\d+):(\d+):(\d+):(\d+)")
_FAILURES = re.compile(r" (map|reduce):(\d+):(\d+):(\d+):([\d,]+)")
_COUNTS = re.compile(r" (\d+):(\d+)")
_OTHERS = ("held", "failures", "failed", "machines", "levels")


def contradiction(fields: Mapping[str, str]) -> str:
    """Return the first contradiction in the shards of a job, "" when there is none. Raises ValueError if unreadable."""
    if not fields:
        return ""
    finished: dict[str, set[int]] = {phase: set() for phase in PHASES}
    for name, mark in fields.items():
        shard = _FINISHED.fullmatch(name)
        if shard and re.fullmatch(r"\d+-\d+", mark):
            finished[next(phase for phase in PHASES if phase[0] == shard[1])].add(int(shard[2]))
        elif name not in (*PHASES, *_OTHERS):
            raise ValueError(f"{name} is no field of it, or {mark!r} does not say who finished it")
    held = _all(_HELD, fields.get("held", ""))
    running = _running(fields)
    for phase in PHASES:
        total, waiting, done, _ = _read_phase(fields, phase)
        working = [int(shard) for *_, shard in held] if phase == running else []
        if sorted([*indices(waiting), *working, *finished[phase]]) != list(range(total)):
            return f"of the {total} shards of {phase} not each one waits, is worked on or is finished"
        if done != len(finished[phase]):
            return f"{done} shards of {phase} count as done and {len(finished[phase])} are"
    for name, what in (("machines", "failures on a machine"), ("levels", "maps of a level of locality")):
        numbers = [number for number, _ in _all(_COUNTS, fields.get(name, ""))]
        if len(set(numbers)) != len(numbers):
            return f"the {what} are counted twice"
    near = sum(int(count) for _, count in _all(_COUNTS, fields.get("levels", "")))
    if near > len(finished[PHASES[0]]):
        return f"{near} maps have a level of locality and {len(finished[PHASES[0]])} are done"
    return _failures(fields, _all(_FAILURES, fields.get("failures", "")))


def _all(pattern: "re.Pattern[str]", text: str) -> list[tuple[str, ...]]:
    matches = pattern.findall(text)
    if "".join(" " + ":".join(words) for words in matches) != text:
        raise ValueError(f"{text!r} is no list of {pattern.pattern.strip()}")
    return matches


def _read_phase(fields: Mapping[str, str], phase: str) -> tuple[int, str, int, int]:
    words = _PHASE.fullmatch(fields.get(phase, ""))
    if words is None:
        raise ValueError(f"{phase} is {fields.get(phase)!r}, not total, waiting, done, milliseconds")
    return int(words[1]), words[2], int(words[3]), int(words[4])


def _running(fields: Mapping[str, str]) -> str:
    total, _, done, _ = _read_phase(fields, PHASES[0])
    return PHASES[1] if done == total else PHASES[0]


def _failures(fields: Mapping[str, str], failures: list[tuple[str, ...]]) -> str:
    if len({(phase, shard) for phase, shard, *_ in failures}) != len(failures):
        return "the failures of a shard are counted twice"
    if any(len(where.split(",")) > int(count) for _, _, count, _, where in failures):
        return "a shard failed on more machines than it failed"
    spent = {f"{phase} {shard}" for phase, shard, count, *_ in failures if int(count) >= TRIES}
    failed = fields.get("failed")
    if (failed is not None or spent) and failed not in spent:
        return f"it failed at {failed or 'nothing'}; tried too often were {', '.join(sorted(spent)) or 'none'}"
    return ""
