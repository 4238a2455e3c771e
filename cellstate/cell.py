"""The types of what takes a cell, or a part of one: the store's or the one in memory.

A signature and its description stand in the class of the store (cellstate/redis). The cell in memory has the same
parts with operations of the same names, except for what tests/contract/test_parts.py lists. What takes either is typed
by a union, and what needs more than both have takes the class of the store. A part is a role: a function that takes
`Executors` cannot commit.
"""

from typing import TYPE_CHECKING, TypeAlias, Union

if TYPE_CHECKING:  # a command imports one of the two when it needs it
    from omega.cellstate.memory.cell import (
        MemoryCell,
        MemoryDigest,
        MemoryExecutors,
        MemoryJobs,
        MemoryMachines,
        MemoryPools,
        MemorySchedulers,
    )
    from omega.cellstate.redis.cell import RedisCell
    from omega.cellstate.redis.digest import RedisDigest
    from omega.cellstate.redis.executors import RedisExecutors
    from omega.cellstate.redis.jobs import RedisJobs
    from omega.cellstate.redis.machines import RedisMachines
    from omega.cellstate.redis.pools import RedisPools
    from omega.cellstate.redis.schedulers import RedisSchedulers

# `Union` evaluates without the imports above, where `|` cannot.
Cell: TypeAlias = Union["RedisCell", "MemoryCell"]
Jobs: TypeAlias = Union["RedisJobs", "MemoryJobs"]
Machines: TypeAlias = Union["RedisMachines", "MemoryMachines"]
CellPools: TypeAlias = Union["RedisPools", "MemoryPools"]
"""Named apart from `Pools`, the settings that it reads and writes."""
Schedulers: TypeAlias = Union["RedisSchedulers", "MemorySchedulers"]
Executors: TypeAlias = Union["RedisExecutors", "MemoryExecutors"]
Digest: TypeAlias = Union["RedisDigest", "MemoryDigest"]
