"""The small forms of all experiments, simulated once for all tests here."""

from collections.abc import Sequence
from functools import cache

import pytest

from omega.experiments.configuration import Configuration
from omega.experiments.experiment import Experiment, Extent, Sweeping
from omega.experiments.results import Record, Results
from omega.experiments.sweep import Sweep

RESULTS = Results()


def clock() -> float:
    """No time is measured here."""
    return 0.0


def simulate(wanted: Sequence[Configuration]) -> list[Record]:
    return Sweep(wanted, RESULTS).run(None, clock)


@cache
def _records(sweep: Sweeping, form: Extent) -> list[Record]:
    return simulate(sweep(form))


class Small:
    """Simulations of small forms, each done once."""

    def of(self, experiment: Experiment) -> Sequence[Record]:
        return _records(experiment.sweep, experiment.small)

    def simulate(self, wanted: Sequence[Configuration]) -> list[Record]:
        return simulate(wanted)

    def records(self, sweep: Sweeping, form: Extent) -> Sequence[Record]:
        return _records(sweep, form)


@pytest.fixture
def small() -> Small:
    return Small()
