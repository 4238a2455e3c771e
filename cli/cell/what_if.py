"""Answers to what-if questions as text."""

from typing import TYPE_CHECKING

from omega.cli import render
from omega.queries import units

if TYPE_CHECKING:
    from omega.what_if.answers import Answers, Run

_TITLES = {
    "wait_mean": "mean wait", "wait_p90": "p90 wait", "response_mean": "mean response",
    "conflict_fraction": "conflict fraction", "tasks_started": "tasks started",
}  # fmt: skip
_SHORT = {
    "wait_mean": ">wait", "wait_p90": ">wait p90", "response_mean": ">response", "conflict_fraction": ">conflicts",
    "tasks_started": ">tasks",
}  # fmt: skip


def show(answers: "Answers") -> None:
    """Print the checks, then the answers."""
    _show_checks(answers)
    render.line()
    if len(answers.runs) == 1:
        _show_one(answers, answers.runs[0])
    else:
        _show_base(answers)
        if answers.runs:
            render.line()
            _show_sweep(answers)
    for note in dict.fromkeys(note for run in (answers.base, *answers.runs) for note in run.notes):
        render.note(note)


def _show_checks(answers: "Answers") -> None:
    judged, trace = answers.judgement, answers.trace
    verdicts = ", ".join(f"{count:,} {word}" for word, count in judged.verdicts.items()) or "none"
    left = ", ".join(f"{count:,} {why}" for why, count in judged.left_out.items())
    disagreeing = [title(name) for name in answers.happened.metrics if not answers.agrees(name)]
    render.facts(
        {
            "recording": f"{answers.recording.path} · cell {answers.recording.cell} · {units.seconds(trace.seconds)}",
            "jobs": f"{len(trace.workload.residents):,} at its beginning, {len(trace.workload.arrivals):,} arriving",
            "schedulers": ", ".join(f"{each.number} {kind}" for kind, each in answers.setups.items()),
            "check 1": f"{judged.judged:,} of {judged.transactions:,} transactions judged again, equal ({verdicts})"
            + (f"; not judged: {left}" if left else ""),
            "check 2": "the run as recorded agrees with what happened"
            if not disagreeing
            else f"the run as recorded differs from what happened in {units.listing(disagreeing)}",
        }
    )
    for line in answers.recording.notes():
        render.warning(line)
    if judged.stopped:
        render.warning(f"transactions are judged up to there: {judged.stopped}")
    for defect in trace.defects:
        render.note(f"{defect.count:,} × {defect.what}")


def title(metric: str) -> str:
    """Return a metric's name for people."""
    return _TITLES.get(metric) or f"{metric.removeprefix('utilisation_')} in use"


def value(metric: str, number: float, *, signed: bool = False) -> str:
    """Return a value of a metric with its unit."""
    sign = ("−" if number < 0 else "+") if signed else ""
    number = abs(number) if signed else number
    if metric.startswith(("wait", "response")):
        return sign + units.seconds(number)
    if metric.startswith("utilisation"):
        return f"{sign}{100 * number:.1f} %"
    return f"{sign}{number:,.0f}" if metric == "tasks_started" else f"{sign}{number:.3f}"


def _effect(answers: "Answers", run: "Run", metric: str) -> str:
    effect = answers.effect(run, metric)
    return "cannot tell" if effect is None else value(metric, effect, signed=True)


def _show_base(answers: "Answers") -> None:
    from omega.what_if.metrics import tolerance

    real = answers.happened.metrics
    render.records(
        [
            {
                "metric": title(name), ">happened": value(name, real[name]),
                ">as recorded": value(name, answers.base.metrics[name]),
                ">tolerance": value(name, tolerance(name).of(real[name])),
                "agrees": "yes" if answers.agrees(name) else "no",
            }
            for name in real
        ]
    )  # fmt: skip


def _show_one(answers: "Answers", run: "Run") -> None:
    real = answers.happened.metrics
    render.records(
        [
            {
                "metric": title(name), ">happened": value(name, real[name]),
                ">as recorded": value(name, answers.base.metrics[name]),
                f">{run.change.label}": value(name, run.metrics[name]), ">effect": _effect(answers, run, name),
            }
            for name in real
        ]
    )  # fmt: skip


def _show_sweep(answers: "Answers") -> None:
    """Print the effects of each change, those of the first resource's use only."""
    first = next(name for name in answers.happened.metrics if name.startswith("utilisation"))
    names = [*_SHORT, first]
    render.line("effects, against the run as recorded:")
    render.records(
        [
            {"change": run.change.label}
            | {_SHORT.get(name, f">{title(name)}"): _effect(answers, run, name) for name in names}
            for run in answers.runs
        ]
    )
