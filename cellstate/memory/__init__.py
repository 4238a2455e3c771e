"""The in-memory twin of a cell: the same results as the scripts, without a server.

For the simulator and for tests. It shares no code with the store, only data types: it mirrors ``lua/commit.lua`` and
the other scripts function by function, and a state machine compares both exactly (tests/property). The parts follow the
parts of the scripts: words, ranges, publish, tasks, commit, machines, agents, jobs, waits, updates, shards; ``plain``
is a fast path for common transactions. What the simulator adds is in ``omega/simulation/twin.py``.
"""

from cellstate.memory.cell import MemoryCell

__all__ = ["MemoryCell"]
