"""A cell on a Redis-protocol server: the port over the scripts of ``lua/``."""

from omega.cellstate.redis.cell import RedisCell, cells, check_name

__all__ = ["RedisCell", "cells", "check_name"]
