"""The one form of a cell in Python: for simulations, dry runs, tests of plug-ins, and comparison with the scripts.

`state` has the records and the call in progress; beside it stand the operations by subject, `cell` names them all.
"""

from omega.cellstate.memory.cell import MemoryCell

__all__ = ["MemoryCell"]
