"""What ``omega sim replay`` prints of a finished replay."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omega.cli import render
from omega.queries import units

if TYPE_CHECKING:
    from omega.replay.paper_mode import Compared

MOST_USERS = 5
"""Users in the table; all are in the document and in users.csv."""


def show(document: Mapping[str, Any]) -> None:
    """Print the document of a replay as tables."""
    for text in document["workload"]:
        render.line(text)
    for defect in document["trace"]["defects"]:
        first = f" (first: {defect['places'][0]})" if defect["places"] else ""
        render.note(f"{defect['count']:,} {defect['what']}{first}")
    render.line()
    metrics, kinds = document["metrics"], document["kinds"]
    # With one kind of job, all jobs are those of the kind.
    jobs = {kind: of for kind, of in metrics["jobs"].items() if kind != "all" or len(metrics["jobs"]) > 2}
    render.records([_counts(kind, of) for kind, of in jobs.items()])
    render.line()
    render.records([_times(kind, of) for kind, of in jobs.items()])
    render.line()
    render.records([_scheduling(kind, document[kind]) for kind in kinds])
    if len(document["schedulers"]) > len(kinds):
        render.line()
        render.records([_scheduler(name, each) for name, each in document["schedulers"].items()])
    render.line()
    _show_cell(document)
    _show_users(metrics["fairness"])
    render.line()
    _show_run(document)


def _counts(kind: str, of: Mapping[str, Any]) -> dict[str, object]:
    states = of["states"]
    other = sum(states[name] for name in ("failed", "stopped", "held"))
    return {
        "kind": kind,
        ">jobs": of["jobs"],
        ">finished": states["finished"],
        ">running": states["running"],
        ">pending": states["pending"],
        ">abandoned": states["abandoned"],
        **({">other": other} if other else {}),
        ">tasks": of["tasks"],
        ">started": of["tasks_started"],
        ">evicted": of["evictions"],
        ">lost": of["losses"],
    }


def _time(value: float | None) -> str:
    return "–" if value is None else units.seconds(value)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}"


def _times(kind: str, of: Mapping[str, Any]) -> dict[str, object]:
    wait, first, response, slowdown = (
        of[name] for name in ("wait_s", "first_attempt_s", "response_s", "bounded_slowdown")
    )
    return {
        "kind": kind,
        ">first attempt mean / p90": f"{_time(first['mean'])} / {_time(first['p90'])}",
        ">wait mean / p90": f"{_time(wait['mean'])} / {_time(wait['p90'])}",
        ">response median": _time(response["median"]),
        ">bounded slowdown mean / p90": f"{_number(slowdown['mean'])} / {_number(slowdown['p90'])}",
    }


def _scheduling(kind: str, of: Mapping[str, Any]) -> dict[str, object]:
    return {
        "schedulers of": kind,
        ">attempts": of["attempts"],
        ">busyness": f"{of['busyness_median']:.4f}",
        ">no conflict": f"{of['busyness_no_conflict_median']:.4f}",
        ">conflict fraction": f"{of['conflict_fraction']:.4f}",
    }


def _scheduler(name: str, each: Mapping[str, Any]) -> dict[str, object]:
    return {
        "scheduler": name,
        ">jobs": each["jobs_scheduled"],
        ">attempts": each["attempts"],
        ">busyness": f"{each['busyness_median']:.4f}",
        ">conflict fraction": f"{each['conflict_fraction']:.4f}",
    }


def _show_cell(document: Mapping[str, Any]) -> None:
    metrics, residents, over = document["metrics"], document["residents"], document["over_commit"]
    mean, largest = metrics["utilisation"]["mean"], metrics["utilisation"]["largest"]
    unknown = residents["on_unknown_machines"]
    said = f"{residents['placed']:,} placed, {residents['waiting']:,} waiting"
    most = f", at most {over['largest_load']:.2f} × their capacity" if over["largest_load"] else ""
    render.facts(
        {
            "utilisation": " · ".join(f"{mean[name]:.1%} {name} (at most {largest[name]:.1%})" for name in mean),
            "fragmentation": " · ".join(
                f"{share:.1%} of the free {n}" for n, share in metrics["fragmentation"].items()
            ),
            "residents": said + (f" ({unknown:,} of them on unknown machines)" if unknown else ""),
            "over-commit": f"{over['machines']:,} of {over['of']:,} machines hold more than they have{most}",
        }
    )


def _show_users(fairness: Mapping[str, Any]) -> None:
    users, jain = fairness["users"], fairness["jain_index"]
    if len(users) < 2:
        return
    render.line()
    render.records(
        [
            {
                "user": each["user"],
                ">jobs": each["jobs"],
                ">finished": each["finished"],
                ">dominant share": f"{each['share']:.1%}",
                ">wait mean": _time(each["wait_mean"]),
                ">slowdown mean": _number(each["slowdown_mean"]),
            }
            for each in users[:MOST_USERS]
        ]
    )
    if len(users) > MOST_USERS:
        render.note(f"… {len(users) - MOST_USERS:,} more users")
    if jain is not None:
        render.line(f"Jain's index of the users' mean bounded slowdown: {jain:.3f}")


def _show_run(document: Mapping[str, Any]) -> None:
    length = units.seconds(86_400 * document["days"])
    render.line(f"{document['architecture']}, {length}, seed {document['seed']}")
    wall = units.seconds(document["wall_seconds"])
    render.note(f"{document['events']:,} events in {wall} · digest {document['digest']}")


def show_comparison(rows: "Sequence[Compared]") -> None:
    """Print the figures of several runs of one workload side by side, and how many differ."""
    from omega.replay.paper_mode import FORMS

    render.line()
    records = []
    for row in rows:
        record: dict[str, object] = {"figure": row.name, "kind": row.kind}
        for form, value, little in zip(FORMS, row.values, row.little, strict=True):
            record[f">{form}"] = _figure(row.name, value) + ("" if little else " *")
        records.append(record)
    render.records(records)
    render.line()
    for i, form in enumerate(FORMS):
        number = sum(not row.little[i] for row in rows)
        if i:
            said = "no figure differs" if not number else f"{number} of {len(rows)} figures differ (*)"
            render.line(f"{form}: {said} from the run as traced by more than 10 %, 1 s of wait and 0.01 of a share")


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    if name.startswith("wait"):
        return units.seconds(value)
    return f"{value:.1%}" if name.endswith("utilisation") else f"{value:.4f}"


def show_lightweight(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the figures of both simulators side by side."""
    render.line()
    render.records(
        [
            {
                "kind": row["kind"],
                "simulator": row["simulator"],
                ">jobs": row["jobs"],
                ">wait mean": units.seconds(row["wait_mean"]),
                ">busyness": f"{row['busyness']:.4f}",
                ">conflict fraction": f"{row['conflict_fraction']:.4f}",
            }
            for row in rows
        ]
    )
