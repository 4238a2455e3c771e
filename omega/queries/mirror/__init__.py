"""A cell in memory for pages and streams: one reader per cell, documents as those of the commands.

Start reading at `cell_mirror.py`; `reader.py` brings it up to date, `mirrors.py` keeps the mirrors of a store.
"""

from omega.queries.mirror.cell_mirror import CellMirror
from omega.queries.mirror.index import Index
from omega.queries.mirror.job_table import JobFilter
from omega.queries.mirror.top_mirror import TopMirror

__all__ = ["CellMirror", "Index", "JobFilter", "TopMirror"]
