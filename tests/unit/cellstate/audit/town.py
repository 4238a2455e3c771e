"""A small cell in which everything has happened once, and ways to edit its store behind its back."""

import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgpack
import redis

from omega.cellstate.events import parse
from omega.cellstate.fairness import Assertion
from omega.cellstate.model import After, Gang, JobSpec, Limits, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.job_records import Fields, decode, encode
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Detection, Mode, Position, Transaction

SMALL = TaskGroup((100, 50), 10)
LEASE_MS = 600_000


def job(name: str, *groups: TaskGroup, kind: str = "batch", precedence: int = 0, gang: Gang = Gang.NO) -> JobSpec:
    return JobSpec(name, f"{name}-name", kind, groups, precedence, gang)


class Town:
    """The cell, a scheduler of each kind, and the store under it."""

    def __init__(self, client: "redis.Redis", cell: RedisCell) -> None:
        self.client: Any = client
        self.cell = cell
        self.prefix = f"omega:1:{{{cell.name}}}:"
        self.members: dict[str, Membership] = {}
        self.number = 0

    @classmethod
    def founded(cls, client: "redis.Redis", name: str) -> "Town":
        """A new one."""
        return cls(client, RedisCell.create(client, name))

    def copy(self, client: "redis.Redis") -> "Town":
        """The same town, key by key, in an empty store: a fiftieth of the time it took to live through."""
        for key in self.client.keys(self.prefix + "*"):
            client.restore(key, max(self.client.pttl(key), 0), self.client.dump(key))
        town = Town(client, RedisCell.open(client, self.cell.name))
        town.members, town.number = dict(self.members), self.number
        return town

    # Living in it

    def commit(
        self, job_id: str, *claims: Claim, kind: str = "batch", mode: Mode = Mode.INCREMENTAL,
        assertion: Assertion | None = None,
    ) -> int:  # fmt: skip
        self.number += 1
        transaction = Transaction(job_id, claims, mode, Detection.FINE, assertion)
        reply = self.cell.schedulers.commit(
            CommitRequest(self.members[kind], self.number, [transaction], Position(), self.number)
        )
        return reply.outcomes[0].placed

    def commit_each(self, job_id: str, *claims: Claim) -> int:
        """Place tasks of a job in one call, with a transaction for each claim."""
        self.number += 1
        transactions = [Transaction(job_id, (claim,)) for claim in claims]
        reply = self.cell.schedulers.commit(
            CommitRequest(self.members["batch"], self.number, transactions, Position(), self.number)
        )
        return sum(outcome.placed for outcome in reply.outcomes)

    def run_of(self, job_id: str, machine: int, *, leaving: bool = False) -> int:
        """The placement of a job's tasks on a machine."""
        runs = self.cell.machines.runs([machine])
        return next(run.placement for run in runs if run.job == job_id and run.leaving == leaving)

    def end(self, job_id: str, machine: int, how: EndKind, tasks: str = "*", reason: str = "") -> int:
        placement = self.run_of(job_id, machine, leaving=how is EndKind.LEFT)
        return self.cell.executors.end([TaskEnd(machine, placement, how, tasks, reason)], 9, "simulated")[0]

    def populate(self) -> "Town":
        """Live through placements, gangs, evictions of both sorts, every end, and machines that come and go."""
        cell = self.cell
        for kind in ("batch", "service"):
            self.members[kind] = cell.schedulers.register(f"{kind}/0", f"nonce-{kind}", LEASE_MS, 0)
        cell.executors.register("simulated", "n", 600_000, 0)
        cell.machines.join("simulated", [MachineSpec(f"m{i}", (4000, 4000)) for i in range(8)], 0)
        cell.pools.set_limits("service", Limits((None, 3000), 9), 0, "ada")
        jobs = [job("part", SMALL), job("many", SMALL, SMALL), job("low", TaskGroup((1000, 10), 4))]
        jobs += [job("gang", TaskGroup((100, 10), 4), gang=Gang.YES), job("done", TaskGroup((10, 10), 2))]
        jobs += [job("strict", TaskGroup((100, 10), 2), precedence=5, gang=Gang.STRICT), job("halt", SMALL)]
        cell.jobs.submit(jobs, 1, "ada")
        cell.jobs.submit([job("high", TaskGroup((1000, 10), 3), kind="service", precedence=9)], 1, "ada")
        cell.jobs.submit([job("held", SMALL)], 1, "ada", held=True)
        assert self.commit("part", Claim(0, 0, 4), Claim(1, 0, 3)) == 7
        assert self.commit("many", Claim(0, 0, 10), Claim(1, 1, 9)) == 19
        assert self.commit("low", Claim(2, 0, 4)) == 4
        assert self.commit("gang", Claim(2, 0, 2), Claim(4, 0, 2), mode=Mode.GANG) == 0
        assert self.commit("gang", Claim(3, 0, 2)) == 0
        assert self.commit("gang", Claim(3, 0, 2), Claim(4, 0, 2), mode=Mode.GANG) == 4
        assert self.commit("strict", Claim(3, 0, 1), Claim(5, 0, 1), mode=Mode.GANG) == 2
        assert self.commit("done", Claim(5, 0, 2)) == 2
        victims = ((self.run_of("low", 2), 2),)
        assert self.commit("high", Claim(2, 0, 2, evict=victims), kind="service") == 2
        assert self.commit("high", Claim(2, 0, 1), kind="service") == 0
        assert self.commit("halt", Claim(1, 0, 5)) == 5
        cell.jobs.stop("halt", 2, "ada")
        assert self.end("halt", 1, EndKind.STOPPED, "0-1") == 2
        assert self.end("many", 0, EndKind.FINISHED, "2,4") == 2
        assert self.end("many", 0, EndKind.FAILED, "5") == 1
        assert self.end("many", 1, EndKind.LOST, "7-8") == 2
        assert self.end("many", 0, EndKind.EVICTED, "9", "drain") == 1
        assert self.end("many", 0, EndKind.LEFT) == 1
        assert self.end("done", 5, EndKind.FINISHED) == 2
        self.change_machines()
        return self

    def change_machines(self) -> None:
        """A drained one, one that went down, one that left and came back, a shrunk one, and one that is over."""
        cell = self.cell
        cell.jobs.submit([job("wide", TaskGroup((500, 100), 8))], 3, "ada")
        assert self.commit("wide", Claim(6, 0, 5), Claim(7, 0, 3)) == 8
        cell.machines.set_state(4, MachineState.DRAINED, 3, "ada")
        assert self.end("strict", 5, EndKind.LOST) == 1
        cell.machines.set_state(5, MachineState.DOWN, 3, "ada")
        cell.machines.set_state(5, MachineState.GONE, 3, "ada")
        cell.machines.join("simulated", [MachineSpec("m5", (4000, 4000))], 4)
        cell.machines.set_capacity(6, (1000, 1000), 4, "ada", [(self.run_of("wide", 6), 3)])
        cell.machines.join("simulated", [MachineSpec("m7", (1000, 1000))], 4)
        cell.jobs.submit([job("last", TaskGroup((10, 10), 3))], 5, "ada")
        assert self.commit("last", Claim(3, 0, 2)) == 2
        cell.jobs.submit([JobSpec("next", "next-name", "batch", (SMALL,), after=(After("last"),))], 6, "ada")
        cell.jobs.resize("next", {0: 4}, 7, "ada")

    # Editing behind its back

    def put(self, key: str, name: object, value: object) -> "Town":
        self.client.hset(self.prefix + key, str(name), str(value))
        return self

    def drop(self, key: str, name: object) -> "Town":
        self.client.hdel(self.prefix + key, str(name))
        return self

    def queue(self, kind: str, job_id: str, arrival: int | None) -> "Town":
        """Put a job into the queue of a kind, or take it out."""
        there = self.client.hexists(self.prefix + "jobs", job_id)
        member = f"{self.fields(job_id)['bucket'] if there else 0:02x}{job_id}"
        if arrival is None:
            assert self.client.zrem(self.prefix + f"pending:{kind}", member)
        else:
            self.client.zadd(self.prefix + f"pending:{kind}", {member: arrival})
        return self

    def text(self, key: str, name: object) -> str:
        value = self.client.hget(self.prefix + key, str(name))
        assert value is not None, (key, name)
        return str(value.decode())

    def edit(self, key: str, name: object, old: str, new: str) -> "Town":
        """Replace a piece of a record, which must be there."""
        text = self.text(key, name)
        assert old in text, text
        return self.put(key, name, text.replace(old, new, 1))

    def words(self, key: str, name: object, at: int, value: object) -> "Town":
        """Replace one word of a record; a machine's are numbers of eight bytes."""
        if key == "machines":
            record = self.client.hget(self.prefix + key, str(name))
            numbers = list(struct.unpack(f"<{len(record) // 8}q", record))
            numbers[at] = int(str(value))
            self.client.hset(self.prefix + key, str(name), struct.pack(f"<{len(numbers)}q", *numbers))
            return self
        words = self.text(key, name).split(" ")
        words[at] = str(value)
        return self.put(key, name, " ".join(words))

    def job(self, job_id: str, **changes: object) -> "Town":
        """Replace fields of a job's record (cellstate/schema.py)."""
        return self.put_job(job_id, self.fields(job_id) | changes)

    def group(self, job_id: str, at: int = 0, **changes: object) -> "Town":
        """Replace fields of one group of a job's record."""
        fields = self.fields(job_id)
        fields["groups"][at] |= changes
        return self.put_job(job_id, fields)

    def shorten_loss(self, job_id: str, at: int, old: str, new: str) -> "Town":
        """Replace a piece of the losses of a group, which must be there."""
        rest = self.fields(job_id)["groups"][at]["rest"]
        assert old in rest, rest
        return self.group(job_id, at, rest=rest.replace(old, new))

    def fields(self, job_id: str) -> Fields:
        record = self.client.hget(self.prefix + "jobs", job_id)
        assert record is not None, job_id
        return decode(record, len(self.cell.dimensions))

    def specify(self, job_id: str, spec: Mapping[str, Any]) -> "Town":
        """Replace the specification of a job."""
        self.client.hset(self.prefix + "specs", job_id, msgpack.packb(spec))
        return self

    def put_job(self, job_id: str, fields: Fields) -> "Town":
        self.client.hset(self.prefix + "jobs", job_id, encode(fields))
        return self

    def rewrite_log(self, change: Callable[[str], str], *, start: int = 0) -> "Town":
        """Change the text of every entry's facts; leave out the versions before `start`."""
        key = self.prefix + "log"
        entries = self.client.xrange(key)
        self.client.delete(key)
        for name, fields in entries:
            lines = fields[b"facts"].decode().split("\n")
            facts = [event.line for line in lines for event in parse(line)]
            fields[b"facts"] = change("\n".join(facts))
            if int(name.split(b"-")[0]) >= start:
                self.client.xadd(key, fields, id=name)
        return self

    def replace_fact(self, old: str, new: str, *, start: int = 0) -> "Town":
        """Replace a piece of the log, which must be there; ``new`` "" removes the lines it is in."""
        seen = 0

        def change(text: str) -> str:
            nonlocal seen
            seen += old in text
            if not new:
                return "\n".join(line for line in text.split("\n") if old not in line)
            return text.replace(old, new, 1)

        self.rewrite_log(change, start=start)
        assert seen, f"no fact has {old!r}"
        return self
