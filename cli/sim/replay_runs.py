"""The runs of ``omega sim replay``: one, or several that are compared."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import BadInput
from omega.cli import render
from omega.cli.app import App
from omega.cli.sim.temporary_cell import temporary_cell
from omega.queries import units

if TYPE_CHECKING:
    from omega.replay.paper_mode import Compared
    from omega.replay.run import Replay
    from omega.replay.schedulers import Changes
    from omega.schedulers.scheduler import Scheduler
    from omega.simulation import Settings
    from omega.traces import Trace
    from omega.workload.workload import Workload


def settings_of(given: dict[str, Any], trace: "Trace", seed: int) -> "Settings":
    """Return the settings of the simulation by the options. Raises BadInput."""
    from omega.cellstate.transaction import Detection, Mode
    from omega.simulation import Settings

    length = trace.seconds / 3600
    hours = length if given["hours"] is None else min(given["hours"], length)
    if not hours + given["drain"]:
        raise BadInput("trace: its period has no length; add --drain HOURS to simulate what follows")
    values = {
        "batch_schedulers": given["batch"], "service_schedulers": given["service"],
        **{name: given[name] for name in ("architecture", "t_job_batch", "t_job_service", "t_task", "t_task_service")},
        "detection": None if given["detection"] is None else Detection[given["detection"].upper()],
        "commit": None if given["commit"] is None else Mode[given["commit"].upper()],
    }  # fmt: skip
    days = (hours + given["drain"]) / 24
    return Settings(days=days, seed=seed, **{name: value for name, value in values.items() if value is not None})


def _with_pools(workload: "Workload", pools: str | None) -> "Workload":
    if pools is None:
        return workload
    from omega.workload.file import with_pools

    return with_pools(workload, pools)


def _taken(workload: "Workload", chosen: "Sequence[Scheduler]", given: dict[str, Any]) -> "Workload":
    """Return the workload with jobs for the schedulers of kinds that it has no jobs of. Raises BadInput."""
    there = {each.job.kind for each in (*workload.residents, *workload.arrivals)} | {"batch", "service"}
    wanting = list(dict.fromkeys(each.kind for each in chosen if each.kind not in there))
    if not wanting or (given["architecture"] or "").startswith("monolithic"):
        return workload
    if given["takes"] is None:
        kinds = ", ".join(wanting)
        raise BadInput(
            f"scheduler of kind {kinds}: the trace has no such jobs; add --takes KIND to give it a share of others"
        )
    from omega.trial import share_out

    return share_out(workload, wanting, given["takes"], given["share"])


class Runs:
    """Runs the workload of a trace, several times where runs are compared."""

    def __init__(
        self, app: App, trace: "Trace", settings: "Settings", chosen: "Sequence[Scheduler]", given: dict[str, Any],
        url: str | None,
    ) -> None:  # fmt: skip
        self.app, self.settings, self.chosen, self.given, self.url = app, settings, chosen, given, url
        self.workload = _taken(_with_pools(trace.workload, given["pools"]), chosen, given)

    def _changes(self, *, preemption: bool) -> "Changes":
        from omega.replay.schedulers import Changes

        detection = self.settings.detection if self.given["detection"] else None
        commit = self.settings.commit if self.given["commit"] else None
        return Changes(detection=detection, commit=commit, preemption=preemption)

    def policies(self, *, preemption: bool) -> list[dict[str, Any]]:
        """Return the schedulers by their policies."""
        from omega.replay.schedulers import policies, schedulers_of

        changes = self._changes(preemption=preemption)
        return [policies(each) for each in schedulers_of(self.chosen, self.settings, changes)]

    def run(self, name: str, failures: bool, preemption: bool) -> "Replay":
        """Run the workload once; `name` is shown."""
        from omega.replay.run import replay, without_failures
        from omega.replay.schedulers import schedulers_of
        from omega.schedulers.failing import as_one_line
        from omega.schedulers.foreign_errors import RAISED

        workload = self.workload if failures else without_failures(self.workload)[0]
        schedulers = schedulers_of(self.chosen, self.settings, self._changes(preemption=preemption))
        quiet = self.app.as_json
        with temporary_cell(self.url, workload.dimensions) as cell, render.progress(quiet=quiet) as bars:
            bar = bars.add_task(name, total=100, more=f"% of {units.seconds(86_400 * self.settings.days)}")

            def show(part: float) -> None:
                bars.update(bar, completed=round(100 * part))

            with as_one_line(*schedulers, errors=RAISED):
                return replay(workload, self.settings, schedulers, cell=cell, progress=show)

    def compare(self, *, paper: bool) -> "tuple[list[Compared], Replay]":
        """Run with and without failures and preemption; return the figures of all, and the run that was asked for."""
        from omega.replay.paper_mode import compare

        return compare(self.run, "paper mode" if paper else "as traced")

    def lightweight(self, replayed: "Replay") -> list[dict[str, Any]]:
        """Run the lightweight simulator on the same cell; return the figures of both by kind of job."""
        from omega.replay.run import run_lightweight

        with render.busy("lightweight simulator", quiet=self.app.as_json):
            light = run_lightweight(self.workload, self.settings)
        rows = []
        for kind, of in replayed.result.kinds.items():
            for simulator, found in (("replay", of), ("lightweight", light.kinds.get(kind))):
                if found is not None and of.jobs_submitted:
                    rows.append(
                        {
                            "kind": kind, "simulator": simulator, "jobs": found.jobs_submitted,
                            "wait_mean": found.wait_mean, "busyness": found.busyness.median,
                            "conflict_fraction": found.conflict_fraction.median,
                        }
                    )  # fmt: skip
        return rows
