"""Random worlds by their seeds: each plays to its end."""

from collections.abc import Callable
from typing import Protocol

from omega.cellstate.errors import Refused


class Playable(Protocol):
    """A world of one job; `over` once the job has ended."""

    @property
    def over(self) -> bool: ...

    def play(self) -> None: ...


def play(world_of: Callable[[int], Playable], seeds: range) -> None:
    """Play the worlds of these seeds; an error names its seed."""
    for seed in seeds:
        world = world_of(seed)
        try:
            world.play()
        except Refused:
            assert world.over, f"world {seed}"  # its last task may end within an act
        except AssertionError as error:
            error.add_note(f"world {seed}")
            raise
