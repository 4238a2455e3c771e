"""All experiments by name, and the figures of the paper that the lightweight simulator draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omega.cellstate.errors import BadInput
from omega.experiments import arrivals, decision_time, mix, offers, sizing, surface
from omega.experiments.experiment import Experiment, Extent, Sweeping, nothing
from omega.workload.presets import PRESETS, preset


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """A figure: its title, its simulations, and the form that draws in minutes on two cores."""

    number: int
    title: str
    sweep: Sweeping
    form: Extent

    def sized(
        self, days: float | None = None, cells: Sequence[str] = (), machines: int | None = None, scale: float = 1.0
    ) -> Extent:
        """Return the extent with other days, or `scale` times its own, cells or sizes. BadInput for another cell."""
        for name in cells:
            preset(name)
        if self.sweep is nothing:  # figures of a workload use all of it
            return self.form.but(cells=cells)
        return self.form.but(days, cells, machines, scale=scale)


ALL = tuple(PRESETS)
FIGURES = {
    each.number: each
    for each in (
        PaperFigure(2, "Batch and service shares of the workload", nothing, Extent(0.29, 0, ALL)),
        PaperFigure(3, "Job run times and gaps between jobs", nothing, Extent(0.29, 0, ALL)),
        PaperFigure(4, "Tasks per job", nothing, Extent(0.29, 0, ALL)),
        PaperFigure(5, "Job wait time over t_job(service)", decision_time.sweep, Extent(2.2, 5, ALL, even=True)),
        PaperFigure(6, "Scheduler busyness over t_job(service)", decision_time.sweep, Extent(2.2, 5, ALL, even=True)),
        PaperFigure(7, "Two-level over t_job(service)", offers.sweep, Extent(0.3, 5, ("A", "C"), even=True)),
        PaperFigure(8, "Shared state: more batch jobs", arrivals.sweep, Extent(0.08, 5, ALL, even=True)),
        PaperFigure(
            9, "Shared state: more batch schedulers", arrivals.shared_sweep, Extent(0.12, 6, ("B",), even=True)
        ),
        PaperFigure(10, "Busyness over t_job and t_task of service", surface.sweep, Extent(0.12, 3, ("B",), even=True)),
        PaperFigure(15, "Speed-up of MapReduce jobs", nothing, sizing.NONE),
        PaperFigure(16, "MapReduce jobs: utilisation of the cell", nothing, sizing.NONE),
    )
}


def figure(number: int) -> PaperFigure:
    """Return a figure by its number in the paper. Raises BadInput with the known numbers."""
    if number not in FIGURES:
        raise BadInput(f"figure {number}: the simulator draws figures 2 to 10, 15 and 16 of the Omega paper")
    return FIGURES[number]


EXPERIMENTS = {
    each.name: each for module in (mix, decision_time, offers, arrivals, surface, sizing) for each in module.EXPERIMENTS
}


def find(names: Sequence[str], known: Mapping[str, Experiment] = EXPERIMENTS) -> list[Experiment]:
    """Return the experiments of these names; all for none. Raises BadInput with the known names."""
    for name in names:
        if name not in known:
            raise BadInput(f"unknown experiment {name!r}; known: {', '.join(known)}")
    return [known[name] for name in names or known]


def of_figure(number: int) -> list[Experiment]:
    """Return the experiments about a figure of the paper."""
    return [experiment for experiment in EXPERIMENTS.values() if experiment.figure == number]
