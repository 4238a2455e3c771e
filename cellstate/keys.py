"""Every key of a cell, with its type; the schema's number, and the message for a cell of another one.

All carry the cell's name as hash tag, so a cell lives on one shard and many cells spread over a
Redis Cluster.

    meta        hash    schema, rules, resources, version, floor and the other counters
    machines    hash    index → machine record: numbers of eight bytes (lua/parts/rows.lua)
    runs        hash    index → the runs on the machine
    placed      hash    job, group, chunk → runs of a job beyond those in its record (lua/parts/placements.lua)
    static      hash    index → name and attributes (MessagePack)
    trees       hash    index → number of the machine's pool tree, "-" for none; missing until it is assigned
    names       hash    machine name → index
    shapes      hash    "state simulated capacity…" → how many machines are so; "over" → indices (cellstate/pages.py)
    executors   hash    executor name → number: even when it runs commands, odd when it simulates
    serving     hash    number of a live executor → its name, and why it cannot start tasks
    jobs        hash    job id → job record (cellstate/schema.py)
    specs       hash    job id → the part that only schedulers and executors read (MessagePack)
    jobnames    hash    name → id of the newest job of that name; empty when that is the name
    kinds       hash    kind with limits → limits and use
    lanes       hash    number → counts and name of a lane (lua/parts/lanes.lua); "spare" → numbers that are free
    lanenames   hash    name of a lane → its number
    pools       hash    settings of pools and trees; what pools that carry limits hold (cellstate/pools/records.py)
    epoch       hash    the published fair shares, and what they were computed from (cellstate/pools/records.py)
    recent      zset    job id → number of its submission, for lists that begin with the newest jobs
    waiters     zset    "job number waiter", all of score 0: jobs that wait for another to end, by number of submission
    done        list    "id version" of finished jobs, oldest first: the version in which each ended
    times       list    "version ms", the server's clock at some versions, oldest first
    history     hash    job id → what of the log concerned it, in a bounded record (cellstate/digest/history.py)
    results     hash    job id → "group:chunks;…"; job, group, chunk → results of tasks (cellstate/digest/results.py)
    usage       hash    hour → use by account (cellstate/digest/hours.py); "position" → how far the log was read
    housekeeping zset   job id → when it is due for housekeeping (ms, the server's clock)
    pending:K   zset    bucket and id of the pending jobs of kind K, by lane, bucket and arrival
    changes     list    per version: tag and the records of the machines it touched
    log         stream  per version: time, author, facts
    cuts        hash    number → report of lost versions (cellstate/cuts.py); "last" number; "lost" → sum
    schedulers  hash    kind/instance → incarnation, nonce, last transaction number, its tag and outcome
    agents      hash    name of a live executor → incarnation, nonce, length of its lease
    lease:S     string  expires when scheduler or executor S no longer renews it
    stats       hash    kind/instance → figures of a scheduler (MessagePack)
    box:E       list    mailbox of executor number E
    wake:S      list    at most one token, "1" or "alone": scheduler S has work
    asleep      hash    kind/instance → "amounts name…": has blocked jobs, the least that one needs ("-": not known);
                        freed room and placements of these jobs notify it
    owners      hash    number of a lane → the scheduler that decides all its jobs: told first of room that they leave
    output      hash    job, group, task, stream → the last words of a task; expires
    outputs     list    the fields of output, the oldest first; expires
    answer:R    string  what an agent has of the output that request R asked for (cellstate/tasks.py); expires
    updates     hash    job id → "rolling", or "stalled" and why: updates of jobs that are not done
    operator    hash    index → what operators set of the machine: amounts, and attributes (MessagePack)
    drains      hash    index of a drained machine → deadline of its tasks (ms, the server's clock)
    health      hash    job id → tasks that are ready, or whose end was granted (lua/health.lua)
    confirmed   string  renewed before replicas confirm a change (cellstate/redis/link.py); expires
    settling    string  the highest placement id of a cell just restored or cut: none above it starts; expires
    unsettled   hash    agents that have not confirmed since a cut what they run (lua/confirm_runs.lua); expires
    shards:J    hash    shards of MapReduce job J: counts, workers, finishers; expires
    durations:N string  mean durations of MapReduce jobs named N; expires
    progress:J  hash    machine → how far the tasks of job J on it have come (lua/progress.lua); expires
    copied      hash    id → kind of jobs whose tasks may have copies, from their submission (lua/speculate.lua)
    chosen:J    string  the cell that ``--cell any`` sends job J to, decided once for all submitters; expires
    directories hash    output directory, percent-encoded → the MapReduce job that it belongs to, and an expiry
"""

import re

SCHEMA = 1
"""Raised when records change their form; a cell of another schema is refused."""
RULES = 2
"""Raised when a verdict or the meaning of a record changes, and with the schema: scripts compare it with the cell's.

Versions of Omega with the same number work together on a cell, whatever else differs between them.
"""
FIRST_RULES = 1
"""The lowest number: cells without one have records of another form."""

COUNTERS = frozenset(
    {"schema", "rules", "version", "floor", "placements", "arrivals", "transactions", "jobs", "incarnations", "lanes",
     "limits", "ticks", "pools", "tasks_total", "tasks_finished", "tasks_failed", "tasks_stopped", "tasks_delayed",
     "jobs_held", "jobs_halted", "jobs_stopping", "jobs_finished", "jobs_failed", "jobs_stopped", "jobs_abandoned",
     "copies", "copies_placed"}
)  # fmt: skip
"""The fields of ``meta`` that the scripts maintain; a new cell begins with its own."""
SETTINGS = frozenset({"resources", "keep_jobs", "keep_ms", "durability"})
"""The fields of ``meta`` that a person chooses at a cell's creation; ``omega cell create --like`` copies them all."""
META = COUNTERS | SETTINGS
"""The fields of ``meta``; all but ``resources``, ``ticks`` and ``durability`` (absent for none) are numbers."""

TYPES = dict(re.findall(r"^    (\w+)(?::\w)? +(hash|list|zset|stream|string) ", __doc__, re.MULTILINE))
"""Type of every key by its name, as the table above has them. A new key is a row there, and a reader for the audit in
``cellstate/redis/primary_records.py``."""

ROLES = ("reader", "submitter", "scheduler", "executor", "person")
"""Roles of users of a store; that of a role is called ``omega-ROLE`` (cellstate/acl.py)."""

ANY = "any"
"""No cell has this name: ``--cell any`` lets Omega choose one."""
KEYS = "omega:1:"
"""The beginning of all keys of Omega on a store."""
CELLS = f"{KEYS}cells"
"""The set of cell names on a store; not part of any cell."""
UNREAD = "omega:cells"
"""The same set of the development versions before schema 1, whose cells this version does not read."""


def prefix(cell: str) -> str:
    """Return the prefix of every key of the cell."""
    return f"{KEYS}{{{cell}}}:"


def other_schema(schema: int) -> str:
    """Return the message for records of another schema."""
    remedy = "use the newer Omega" if schema > SCHEMA else "use the Omega that wrote it"
    return f"written with schema {schema}, this Omega has schema {SCHEMA}; {remedy}"


def other_rules(rules: int) -> str:
    """Return the message for a cell with other rules."""
    if rules < FIRST_RULES:
        return "was made by a development version, whose records have another form; delete it: omega cell delete"
    remedy = "use the newer Omega" if rules > RULES else "run omega cell upgrade once no older process runs"
    return f"has rules number {rules}, this Omega has number {RULES}; {remedy}"
