"""Faults that authors of policies make: 52 changes of Omega's own policies and of those in the docs.

Each is a piece of a file and what stands there instead. `unnoticed` is the reason why no contract finds a fault.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    """A fault: its name, the file, the piece that is replaced, and the replacement."""

    name: str
    file: str
    before: str
    after: str
    unnoticed: str = ""
    slow: bool = False
    """Whether it takes seconds to try: then only `make chaos` does."""


LAST, DELAY, CHOICES = "README.md", "docs/examples/delay.py", "docs/examples/two_choices.py"
YOUNGEST, DRF = "docs/examples/youngest.py", "docs/examples/drf.py"
PRECEDENCE = "schedulers/preemption/precedence.py"
USERS, SHORTEST = "schedulers/ordering/without_pools.py", "schedulers/ordering/without_pools.py"
SIZES = "schedulers/sizing.py"

_TAKE = "snapshot.take(machine, need, count)"
_ORDER = "reversed(range(snapshot.size))"
_ROOM = "zip(snapshot.room, need)"
_COUNT = "count = min([left, *fits]) if"
_PLACE = "        claims, mark = [], snapshot.mark()\n"
_RANK = "return self._usage.dominant_share(user=user) / self.weights.get(user, 1.0)"
_OBSERVE = "self._usage = snapshot.usage"
_LACKING = "return victims if all(lack <= 0 for lack in lacking) else []"
_GROUPS = "for group, left in enumerate(work.left):"

FAULTS = (
    # Placements
    Fault("no take", LAST, _TAKE, "pass"),
    Fault("takes more than it claims", LAST, _TAKE, "snapshot.take(machine, need, count + 1)"),
    Fault("takes task by task", LAST, _TAKE, "[snapshot.take(machine, need, 1) for _ in range(count)]"),
    Fault("places on an offline machine", LAST, " if all(room[machine] >= 0 for room in snapshot.room) else 0", ""),
    Fault("places more than is left", LAST, _COUNT, "count = min([left + 1, *fits]) if"),
    Fault("leaves a task out", LAST, _COUNT, "count = min([left, *fits]) - 1 if"),
    Fault("places delayed tasks", LAST, _GROUPS, "for group, left in enumerate(g.unplaced for g in work.job.groups):"),
    Fault("places part of a gang", LAST, "if left and work.gang:", "if False:"),
    Fault("keeps the room of a gang", LAST, "snapshot.undo(mark)", "pass"),
    Fault("undoes what others took", LAST, "snapshot.undo(mark)", "snapshot.undo(0)"),
    Fault("ignores the third resource", LAST, _ROOM, "list(zip(snapshot.room, need))[:2]"),
    Fault("ignores the fourth resource", LAST, _ROOM, "list(zip(snapshot.room, need))[:3]"),
    Fault("claims for the first group", LAST, "Claim(machine, group,", "Claim(machine, 0,"),
    Fault("sees the number of another machine", LAST, "snapshot.number[machine]", "snapshot.number[0]"),
    Fault("evicts", LAST, "seen=int(", "evict=((1, 1),), seen=int("),
    Fault("returns claims in another order", LAST, "        return claims\n", "        return claims[::-1]\n"),
    Fault("changes the job", LAST, "left -= count", "left -= count; work.left[group] = left"),
    Fault("changes a machine's state", LAST, _PLACE, f"{_PLACE}        snapshot.rows[2][:1] = 1\n"),
    Fault("changes a placement's usage", LAST, _PLACE,
          f"{_PLACE}        snapshot.usage.take(work.user, work.pool, work.need(0))\n"),
    Fault("draws from the module random", LAST, _ORDER,
          "__import__('random').sample(range(snapshot.size), snapshot.size)"),
    Fault("draws from a Random of its own", LAST, _ORDER,
          "__import__('random').Random().sample(range(snapshot.size), snapshot.size)"),
    Fault("draws from NumPy", LAST, _ORDER, "map(int, __import__('numpy').random.permutation(snapshot.size))"),
    Fault("chooses by the wall clock", LAST, _ORDER,
          "range(snapshot.size)[:: 1 if __import__('time').time_ns() % 2 else -1]"),
    Fault("goes on where it stopped", LAST, _PLACE,
          f"{_PLACE}        self.turn = getattr(self, 'turn', 0) + 1\n        if self.turn % 3 == 0: return []\n"),
    Fault("remembers the first job", LAST, _ORDER,
          "range(snapshot.size)[:: -1 if self.__dict__.setdefault('first', work.left[0]) % 2 else 1]"),
    Fault("follows the order of hashes", LAST, _ORDER, "map(int, {str(m) for m in range(snapshot.size)})",
          unnoticed="the order is the same within a process; another process has another one", slow=True),
    # Delays
    Fault("work.until never set", DELAY, "work.until = since + self.wait", "pass"),
    Fault("work.until set to the beginning", DELAY, "work.until = since + self.wait", "work.until = since"),
    Fault("wall clock instead of snapshot.now", DELAY, "snapshot.now", "__import__('time').time()"),
    Fault("waits for ever", DELAY, "if not near or snapshot.now >= since + self.wait:", "if not near:"),
    Fault("waits from the first job on", DELAY, 'work.notes.setdefault("delay"', 'self.__dict__.setdefault("delay"'),
    Fault("reads names that are not fetched", CHOICES, "reads_attributes = True", "reads_attributes = False",
          unnoticed="the names are fetched for every job that waits for its data", slow=True),
    # Preemptions
    Fault("evicts any precedence", YOUNGEST, " or each.precedence >= precedence", ""),
    Fault("evicts its own precedence", PRECEDENCE, "each.precedence < below", "each.precedence <= below"),
    Fault("evicts parts of strict gangs", YOUNGEST, " or each.together", ""),
    Fault("evicts more than needed", YOUNGEST, "count = min(each.tasks, max(useful, default=0))", "count = each.tasks"),
    Fault("evicts without enough room", YOUNGEST, _LACKING, "return victims"),
    Fault("evicts on another machine", YOUNGEST, "snapshot.residents.on(machine)", "snapshot.residents.on(0)"),
    Fault("evicts without take", YOUNGEST, "snapshot.take(machine, work.need(group), 1)", "pass"),
    Fault("evicts for more than is left", YOUNGEST, "if left and victims and", "if victims and"),
    Fault("evicts for the first two resources", YOUNGEST, "zip(need, snapshot.room)]",
          "list(zip(need, snapshot.room))[:2]]"),
    Fault("evicts by dice of its own", YOUNGEST, "key=lambda each: -each.placement",
          "key=lambda each: __import__('random').random()"),
    Fault("asks for known machines", YOUNGEST, " & ~snapshot.residents.known(snapshot.number)", ""),
    Fault("never evicts", YOUNGEST, "dominant_share(user=user) > 1 / users", "dominant_share(user=user) > 2"),
    # Orderings
    Fault("observe changes usage", DRF, _OBSERVE, f"{_OBSERVE}; snapshot.usage.take('ada', '', (1, 1))"),
    Fault("a rank of the wall clock", DRF, _RANK, f"{_RANK} + __import__('time').time()"),
    Fault("bounds the tasks of gangs", DRF, "None if work.gang else 8", "8"),
    Fault("a new lane per call", DRF, "return work.user", "return (work.user, object())[0:2]"),
    Fault("a key that changes with the tasks left", SHORTEST, "return expected +",
          "return expected * work.remaining +"),
    Fault("kin of lanes that change together", USERS, "return share / self.weights.get(user, 1.0)",
          "return share - (self._snapshot.usage.dominant_share(user='ada') if self._snapshot else 0)"),
    # Sizes
    Fault("fewer workers than asked for", SIZES, "max(profile.asked, profile.has + totals.room(profile.need, self",
          "(profile.has + totals.room(profile.need, self", slow=True),
    Fault("more workers than are of use", SIZES, "return profile.asked", "return profile.asked + 1_000"),
)  # fmt: skip
