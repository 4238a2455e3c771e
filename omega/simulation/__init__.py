"""The lightweight simulator: the schedulers that run live, in virtual time, under five architectures."""

from omega.simulation.result import Result
from omega.simulation.run import Simulation
from omega.simulation.settings import ARCHITECTURES, Settings

__all__ = ["ARCHITECTURES", "Result", "Settings", "Simulation"]
