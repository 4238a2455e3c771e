"""A cell on a Redis-protocol server: operations over the scripts of ``lua/``."""

from omega.cellstate.redis.cell import RedisCell, check_name
from omega.cellstate.redis.cell_names import cells

__all__ = ["RedisCell", "cells", "check_name"]
