"""Worlds for contracts: small cells with users, pools, gangs and racks, and a job that wants room; one a seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from omega.cellstate.model import Gang, MachineState
from omega.cellstate.resources import Resources
from omega.schedulers.work import Work
from omega.testing.residents import MIDDLE, RESOURCES, CellWithResidents

USERS, POOLS = ("ada", "bob", "eve"), ("", "p", "q")
GANGS = (Gang.NO, Gang.NO, Gang.YES, Gang.STRICT)
DEMANDS: Sequence[Mapping[str, Any]] = (
    {"constraints": ["rack == 'r1'"]},
    {"different_machines": True},
    {"constraints": ["machine in ['m0', 'm2']"]},
    {"spread": [{"domain": "rack", "most": 2}]},
)
WAIT_MS = 5_000
"""Time for which a job prefers its machines (field ``locality``)."""


@dataclass(frozen=True)
class World:
    """The cell and the job of a seed. `full`: hardly any room is free, and one user holds most of it.

    The job's file has one of the `fields`. `demanding`: it has constraints or is spread over machines.
    """

    seed: int
    full: bool
    fields: Sequence[Mapping[str, Any]] = ({},)
    demanding: bool = False

    @property
    def random(self) -> Random:
        """A generator of the world, always with the same numbers."""
        return Random(f"world/{self.seed}/{self.full}")

    @property
    def now(self) -> float:
        """The time of its first decision, seconds; another one in each world."""
        return 1_000.0 + 60.0 * self.seed

    @property
    def _usual(self) -> int:
        """The precedence of most residents: below that of the job in three of four worlds, else equal."""
        return (1, 2, 3, MIDDLE)[self.seed // len(RESOURCES) % 4]

    def made(self) -> tuple[CellWithResidents, Work]:
        """Return the cell and the job, equal at each call."""
        rng, size = self.random, self.seed % len(RESOURCES) + 1
        most = 9 if self.full else 12
        machines = [tuple(rng.randint(3, most) for _ in range(size)) for _ in range(rng.randint(2, 7))]
        scene = CellWithResidents(machines)
        for i in range(len(machines)):
            scene.cell.machines.set_attributes(i, {"rack": f"r{i % 2}"}, 0, "ada")
        holder, *_, wanting = rng.sample(USERS, 3)
        for _ in range(rng.randint(1, 3)):
            machine = rng.randrange(len(machines))
            self._settle(scene, rng, [(machine, rng.randint(1, 2))], _need(rng, size, most=3), rng.choice(USERS))
        if self.full:
            self._fill(scene, rng, machines, holder)
        if len(machines) > 3 and rng.random() < 0.4:
            state = rng.choice([MachineState.DRAINED, MachineState.DOWN])
            scene.cell.machines.set_state(len(machines) - 1, state, 0, "ada")
        return scene, self._job(scene, rng, size, wanting)

    def _settle(
        self, scene: CellWithResidents, rng: Random, where: list[tuple[int, int]], need: Resources, user: str
    ) -> None:
        gang, optional = rng.choice(GANGS), rng.random() < 0.15
        precedence = rng.choice((self._usual, self._usual, 0, 1, 4, 5, 6, 9))
        scene.settle(
            where, need, precedence, Gang.NO if optional else gang, optional=optional, user=user, pool=rng.choice(POOLS)
        )

    def _fill(self, scene: CellWithResidents, rng: Random, machines: list[Resources], user: str) -> None:
        """One user's tasks take what is free; some gangs run on two machines, some strict ones on one."""
        for machine in range(len(machines)):
            for _ in range(2):
                need = _need(rng, len(machines[0]), most=2)
                others = [(machine, 1), ((machine + 1) % len(machines), 1)]
                where = others if rng.random() < 0.3 else [(machine, rng.randint(1, 4))]
                self._settle(scene, rng, where, need, user)
            rest = (1,) * len(machines[0])
            if rng.random() < 0.3:
                scene.settle([(machine, rng.randint(2, 4))], rest, self._usual, Gang.STRICT, user=user)
            scene.settle([(machine, 9)], rest, rng.choice((self._usual, 6)), user=user)

    def _job(self, scene: CellWithResidents, rng: Random, size: int, user: str) -> Work:
        groups = [(_need(rng, size, most=5), rng.randint(1, 4)) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        demands: dict[str, Any] = {"time_limit": 3_600_000}
        if not self.full and rng.random() < 0.6:
            near = [f"m{rng.randrange(scene.cell.machines.count())}"]
            demands["locality"] = {"machines": near, "wait_ms": [WAIT_MS]}
        if self.demanding:
            demands |= DEMANDS[self.seed // len(RESOURCES) % len(DEMANDS)]
        gang = rng.choice((Gang.NO, Gang.NO, Gang.YES))
        total = sum(count for _, count in groups)
        least = total - 1 if gang and total > 1 and self.seed % 2 else 0
        before = [(0, 1)] if not gang and groups[0][1] > 1 and rng.random() < 0.3 else []
        fields: dict[str, Any] = {
            "user": user,
            "pool": rng.choice(POOLS),
            "expected_duration": rng.choice((1, 60, 900)),
        }
        fields |= rng.choice(self.fields)
        return scene.wanting(groups, gang=gang, least=least, demands=demands, running=before, **fields)


def _need(rng: Random, size: int, *, most: int) -> Resources:
    """Return the amounts of a task, of any resource perhaps nothing, and of one something."""
    amounts = [rng.randint(0, most) for _ in range(size)]
    amounts[rng.randrange(size)] = rng.randint(1, most)
    return tuple(amounts)
