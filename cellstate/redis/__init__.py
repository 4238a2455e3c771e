"""A cell on a Redis-protocol server: the port over the scripts of ``lua/``."""

from omega.cellstate.redis.cell import RedisCell
from omega.cellstate.redis.cell_names import cells
from omega.cellstate.redis.opening import check_name

__all__ = ["RedisCell", "cells", "check_name"]
