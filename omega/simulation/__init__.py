"""The event-driven simulator: the live schedulers in virtual time, under five architectures."""

from omega.simulation.result import Result
from omega.simulation.run import Simulation
from omega.simulation.settings import ARCHITECTURES, Settings

__all__ = ["ARCHITECTURES", "Result", "Settings", "Simulation"]
