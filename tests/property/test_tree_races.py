"""Clients that act between the calls of one another: no task starts on a machine of another pool tree."""

from contextlib import suppress
from random import Random
from typing import Any

import fakeredis
import pytest

from omega.cellstate.errors import Overtaken
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools, PoolTree
from omega.cellstate.pools.membership import trees_of
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cellstate.verify import verify
from tests.tiers import first

MACHINES, DEEP = 5, 3
FORMULAS = ("", "has gpu", "gpu == 'a'", "not has gpu", "rack == 'r'")


class Races:
    """A cell with several clients; before any call of one, another may act. `claims` counts accepted ones."""

    def __init__(self, rng: Random) -> None:
        server = fakeredis.FakeServer()
        dimensions = Dimensions(("cpu",))
        first = RedisCell.create(fakeredis.FakeRedis(server=server), "c", dimensions)
        others = [RedisCell.open(fakeredis.FakeRedis(server=server), "c") for _ in range(2)]
        self.rng, self.cells, self.depth, self.claims, self.refused = rng, [first, *others], 0, 0, 0
        self.acting: list[RedisCell] = []
        first.executors.register("e", "n", 60_000, 0)
        first.machines.join("e", [self.machine(i) for i in range(MACHINES)], 0)
        self.member, self.number = first.schedulers.register("batch/0", "n", 60_000, 0), 0
        jobs = [JobSpec(f"j{i}", f"j{i}", "batch", (TaskGroup((1,), 60),), spec={"pool": f"p{i}"}) for i in range(3)]
        first.jobs.submit(jobs, 0, "ada")
        for cell in self.cells:
            self.watch(cell)

    def watch(self, cell: RedisCell) -> None:
        run, command = cell.run, cell.command

        def disturbed_run(*words: Any, **options: Any) -> Any:
            self.disturb(cell)
            return run(*words, **options)

        def disturbed_command(*words: Any, **options: Any) -> Any:
            if self.depth and self.rng.random() < 0.2:
                self.disturb(cell)
            return command(*words, **options)

        cell.run, cell.command = disturbed_run, disturbed_command  # type: ignore[method-assign]

    def disturb(self, cell: RedisCell) -> None:
        if self.depth < DEEP and self.rng.random() < 0.4:
            free = [each for each in self.cells if each is not cell and each not in self.acting]
            if free:  # one client has one call in flight
                self.act(self.rng.choice(free))

    def machine(self, index: int) -> MachineSpec:
        gpu = self.rng.choice([{}, {"gpu": "a"}, {"gpu": "b"}])
        return MachineSpec(f"m{index}", (6,), gpu | self.rng.choice([{}, {"rack": "r"}]))

    def act(self, cell: RedisCell) -> None:
        self.depth += 1
        self.acting.append(cell)
        what, index = self.rng.choice(("pools", "attributes", "join", "claim", "claim", "claim", "left")), 0
        index = self.rng.randrange(MACHINES)
        if what == "pools":
            formulas = ["", *self.rng.sample(FORMULAS[1:], 2)] if self.rng.random() < 0.8 else [""]
            trees = tuple(PoolTree(f"t{i}", formula) for i, formula in enumerate(formulas))
            pools = tuple(Pool(f"p{i}", tree=self.rng.choice(trees).name) for i in range(3))
            with suppress(Overtaken):
                cell.pools.set(Pools(pools, trees), cell.pools.get().version, 0, "ada")
        elif what == "attributes":
            cell.machines.set_attributes(index, {"gpu": self.rng.choice(["a", "b", None])}, 0, "ada")
        elif what == "join":
            cell.machines.join("e", [self.machine(index)], 0)
        elif what == "left":
            runs = [run for run in cell.machines.runs([index]) if run.leaving]
            cell.executors.end([TaskEnd(index, run.placement, EndKind.LEFT) for run in runs], 0, "e")
        else:
            self.claim(index)
        self.acting.pop()
        self.depth -= 1

    def claim(self, index: int) -> None:
        """Claim as a scheduler that knows nothing of trees, in one call; the machine is in the job's tree then."""
        name, cell = f"p{self.rng.randrange(3)}", self.cells[0]
        deep, self.depth = self.depth, DEEP  # nobody acts within this call
        self.number += 1
        claim = Transaction(f"j{name[1]}", (Claim(index, 0, 1),))
        (outcome,) = cell.schedulers.commit(CommitRequest(self.member, self.number, (claim,), Position(), 0)).outcomes
        pools = cell.pools.get()
        (tree,) = trees_of(pools, cell.machines.described([index])) if pools.divided else [None]
        if outcome.accepted:
            self.claims += 1
            assert not pools.divided or tree == pools.tree_number(name)
        else:
            self.refused += 1
        self.depth = deep


@pytest.mark.parametrize("seed", first(1, range(6)))
def test_no_claim_lands_on_another_trees_machine(seed: int) -> None:
    races = Races(Random(f"{seed}/trees"))
    for _ in range(60):
        races.act(races.rng.choice(races.cells))
    races.depth = DEEP
    races.cells[0].pools.assign_trees(0, "batch/0")
    assert races.claims >= 10
    assert races.refused >= 10
    assert verify(races.cells[1]).violations == ()
