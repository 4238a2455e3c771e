"""All experiments by name."""

from collections.abc import Sequence

from omega.cellstate.errors import BadInput
from omega.experiments import arrivals, decision_time, mix, offers, sizing, surface
from omega.experiments.experiment import Experiment

EXPERIMENTS = {
    each.name: each for module in (mix, decision_time, offers, arrivals, surface, sizing) for each in module.EXPERIMENTS
}


def find(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of these names; all for none. Raises BadInput with the known names."""
    for name in names:
        if name not in EXPERIMENTS:
            raise BadInput(f"unknown experiment {name!r}; known: {', '.join(EXPERIMENTS)}")
    return [EXPERIMENTS[name] for name in names or EXPERIMENTS]


def of_figure(number: int) -> list[Experiment]:
    """Return the experiments about a figure of the paper."""
    return [experiment for experiment in EXPERIMENTS.values() if experiment.figure == number]
