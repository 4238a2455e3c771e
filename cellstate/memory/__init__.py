"""The in-memory twin of a cell: the same answers as the scripts, without a server.

For the simulator and for tests. It shares no code with the store, only the words: what
``lua/commit.lua`` says is repeated here function by function, and a state machine holds both to the
letter (tests/property). The parts follow the parts of the scripts: words, ranges, publish, tasks,
commit, machines, agents, jobs, waits, updates, shards; ``plain`` and ``simulated`` are short ways of the simulator.
"""

from cellstate.memory.cell import MemoryCell

__all__ = ["MemoryCell"]
