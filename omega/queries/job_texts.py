"""Facts of a job's documents as text: its history, losses, update and consumption."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omega.queries import units

Document = Mapping[str, Any]


def loss_lines(rows: Sequence[Document]) -> Iterator[str]:
    """Yield a line for each: ``tasks 3,5 of web: lost 2 times of at most 10, placed again in 3.2 s``."""
    for each in rows:
        delay = f", delayed for {units.seconds(each['delay_ms'] / 1000)}" if each["delay_ms"] else ""
        tasks = f"tasks {each['indices']} of group {each['name']}"
        if each["failures"]:
            yield f"{tasks}: used up the restarts of a machine {units.count(each['failures'], 'time')}{delay}"
        if each["lost"]:
            yield f"{tasks}: lost {units.count(each['lost'], 'time')} of at most {each['budget']}{delay}"


def update_text(now: Document) -> str:
    """Return the progress of an update; empty when it has finished."""
    done = f"{now['tasks'] - min(now['to_replace'], now['tasks']):,} of {units.count(now['tasks'], 'task')} replaced"
    return {"rolling": f"rolling: {done}", "stalled": f"stalled: {now['reason']}"}.get(now["update"], "")


def history_text(history: Document, submitted_ms: int) -> str:
    """Return the attempts and conflicts of a job."""
    if not history["attempts"]:
        return "nothing placed yet" if history["complete"] else "not kept"
    first = ""
    if history["first_placed_ms"] is not None:
        after = max(0, history["first_placed_ms"] - submitted_ms) / 1000
        first = f" · first placed after {units.seconds(after)}"
    rest = "" if history["complete"] else " · not all of it is kept"
    attempts, conflicts = (units.count(history[name], word) for name, word in _COUNTED)
    again = history["placed_again"]
    more = f" · {units.count(again, 'task')} placed again" if again else ""
    return f"{attempts} by {units.listing(history['by'])}, {conflicts}{more}{first}{rest}"


_COUNTED = (("attempts", "transaction"), ("conflicts", "conflict"))


def measured_text(used: Document) -> str:
    """Return what ended tasks used, all together; "" where nothing was measured."""
    if not used["tasks"]:
        return ""
    peak = f"at most {used['peak_bytes'] / (1 << 20):,.0f} MiB in one process"
    cpu, run = f"{used['cpu_ms'] / 1000:,.1f} s", units.age(used["run_ms"] / 1000)
    return f"{units.count(used['tasks'], 'ended task')}: {cpu} of CPU time in {run}, {peak}"
