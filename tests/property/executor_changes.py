"""Executors at random: agents and simulated ones come, renew their leases, are found gone and leave."""

from abc import abstractmethod
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import MachineSpec
from omega.cellstate.replies import Membership
from omega.cellstate.resources import Resources
from tests.property.books import Books
from tests.property.worlds import LEASE_MS, World, Worlds


class ExecutorChanges(RuleBasedStateMachine):
    """What `Twins` do to executors."""

    worlds: Worlds
    twin: MemoryCell
    books: Books

    @abstractmethod
    def tick(self, most: int = 3) -> int:
        """The time goes on."""

    @abstractmethod
    def scaled(self, vector: Resources) -> Resources:
        """Amounts in the scale of this history."""

    def holds_lease(self, member: str) -> bool:
        """Whether a member is registered, and its lease has not run out yet."""
        return member in self.twin.registered and self.twin.registered[member].lives

    def change_agent(self, data: st.DataObject) -> None:
        name, at = data.draw(st.sampled_from(["m5", "m6"])), self.tick()
        what = data.draw(st.sampled_from(["come", "come", "come", "beat", "expire", "lapse", "leave", "say"]))
        member, nonce = f"agent/{name}", "first" if at % 2 else "second"
        holds = self.holds_lease(member)

        def operation(world: World) -> Any:
            me = world.memberships.get(member, Membership(member, 1))
            index = world.cell.machines.index_of(name)
            if what == "come":
                me = world.memberships[member] = world.cell.executors.register_agent(name, nonce, LEASE_MS, at)
                return me, world.cell.machines.join(member, [MachineSpec(name, self.scaled((8, 8, 6, 7)))], at)
            if what == "beat":
                return world.cell.executors.renew(me, LEASE_MS, index)
            if what == "say":
                world.cell.tasks.keep_tails({("j1", 0, at % 7, "stdout"): str(at).encode()})
                return [world.cell.tasks.tail("j1", 0, task, "stdout") for task in range(7)]
            if what == "expire" and holds:
                return world.expire_lease(member)
            return world.cell.executors.deregister(me, at, "batch/0", reaped=what == "lapse")

        self.worlds.do(operation)
        self.books.at_most = 2  # who comes may put back what the last one left, and then joins

    def change_executor(self, data: st.DataObject) -> None:
        name, at = data.draw(st.sampled_from(["e0", "e0", "e1"])), self.tick()
        what = data.draw(st.sampled_from(["serve", "serve", "serve", "beat", "expire", "lapse", "leave"]))
        nonce, holds = data.draw(st.sampled_from(["first", "second"])), self.holds_lease(name)

        def operation(world: World) -> Any:
            me = world.memberships.get(name, Membership(name, 1))
            if what == "serve":
                me = world.memberships[name] = world.cell.executors.register(name, nonce, LEASE_MS, at)
                return me
            if what == "beat":
                return world.cell.executors.renew(me, LEASE_MS, None)
            if what == "expire":
                return world.expire_lease(name) if holds else None
            return world.cell.executors.deregister(me, at, "batch/0", reaped=what == "lapse")

        self.worlds.do(operation)
        self.books.at_most = 2
