"""The in-memory twin of a cell: the same results as the scripts, without a server.

For the simulator and for tests. It shares no code with the store, only data types: it mirrors ``lua/commit.lua`` and
the other scripts function by function, and a state machine compares both exactly (tests/property).

``ledger`` is the state: all records of a cell (``words``) and what the present call touches. The rules are functions
over it, in one module for each script (commit, end, sync, jobs, machines, …) or part of the scripts (tasks, losses,
links, lanes, pools, publish, delta, done, …). ``cell`` is the port: each call is carried out by the function of its
script. What the simulator adds is in ``omega/simulation/twin.py``.
"""

from omega.cellstate.memory.cell import MemoryCell

__all__ = ["MemoryCell"]
