"""A store with Sentinels whose network can be divided: the primary and one Sentinel on one side, the rest on the other.

Each server is announced by the port of a proxy, and connects from the address of its side, so that the proxies know who
comes. Clients come from 127.0.0.1 and reach all servers: the Sentinels that they ask decide on which side they are.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from tests.chaos.proxy import Proxy, between
from tests.conftest import socket_directory
from tests.server_groups import DOWN_AFTER_MS, PRIMARY, Server, free_ports, until

OLD, NEW = "127.0.0.3", "127.0.0.2"
"""Addresses from which the servers of the two sides connect."""


@dataclass
class Partition:
    """A primary and a Sentinel on the old side; replicas and two Sentinels on the new one."""

    primary: Server
    replicas: list[Server]
    sentinels: list[Server]
    """The last one is on the old side."""
    proxies: dict[int, Proxy] = field(default_factory=dict)
    """By the port of the server behind it."""

    @property
    def old_url(self) -> str:
        """The store as clients of the old side have it."""
        return f"redis+sentinel://127.0.0.1:{self.sentinels[-1].port}/{PRIMARY}"

    @property
    def new_url(self) -> str:
        """The store as clients of the new side have it."""
        return f"redis+sentinel://{','.join(f'127.0.0.1:{each.port}' for each in self.sentinels[:2])}/{PRIMARY}"

    def divide(self) -> None:
        """Let nothing pass between the sides; connections stay open."""
        for port, proxy in self.proxies.items():
            proxy.apart = frozenset({NEW if port in self._old else OLD})

    def heal(self) -> None:
        """Let everything pass again."""
        for proxy in self.proxies.values():
            proxy.apart = frozenset()

    @property
    def _old(self) -> set[int]:
        return {self.primary.port, self.sentinels[-1].port}

    def named_by(self, sentinel: Server) -> Server:
        """Return the server that a Sentinel names as the primary."""
        _, port = sentinel.client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", PRIMARY)
        servers = {self.proxies[each.port].place: each for each in (self.primary, *self.replicas)}
        return servers[int(port)]

    def promoted(self) -> Server:
        """Return the primary of the new side, once both its Sentinels name one."""
        until(lambda: all(self.named_by(each) is not self.primary for each in self.sentinels[:2]), 60)
        new = self.named_by(self.sentinels[0])
        until(lambda: new.replication["role"] == "master")
        return new

    def agreed(self) -> bool:
        """Return whether all Sentinels name the same server, and all others follow it."""
        named = {self.named_by(each).port for each in self.sentinels}
        (primary,) = [each for each in (self.primary, *self.replicas) if each.port in named][:1]
        return len(named) == 1 and primary.replicas_in_step == len(self.replicas)


@contextmanager
def partition(*options: str, replicas: int = 2) -> Iterator[Partition]:
    """Run the servers; `options` are further lines of the configuration of each server that stores data."""
    directory, ports = socket_directory(), free_ports(2 * (replicas + 4))
    real, shown = ports[::2], ports[1::2]
    first, last = shown[0], replicas + 1

    def data(number: int) -> Server:
        lines = ["save ''", "appendonly no", "repl-diskless-sync-delay 0", *options]
        lines += [f"replica-announce-port {shown[number]}", "replica-announce-ip 127.0.0.1"]
        lines += [f"bind-source-addr {NEW if number else OLD}", *([f"replicaof 127.0.0.1 {first}"] if number else [])]
        return Server(real[number], directory, lines)

    def sentinel(number: int) -> Server:
        lines = [f"sentinel monitor {PRIMARY} 127.0.0.1 {first} 2", f"sentinel announce-port {shown[number]}"]
        lines += [f"sentinel down-after-milliseconds {PRIMARY} {DOWN_AFTER_MS}", "sentinel announce-ip 127.0.0.1"]
        lines += [f"sentinel failover-timeout {PRIMARY} 5000", f"bind-source-addr {NEW if number < last + 2 else OLD}"]
        return Server(real[number], directory, lines, sentinel=True)

    servers, sentinels = [data(number) for number in range(last)], [sentinel(last + number) for number in range(3)]
    with ExitStack() as stack:
        made = Partition(servers[0], servers[1:], sentinels)
        for server, place in zip((*servers, *sentinels), shown, strict=True):
            made.proxies[server.port] = stack.enter_context(between(server.port, place))
            stack.callback(server.kill)
            server.start()
        for each in sentinels:
            until(partial(_knows, each, replicas))
        until(made.agreed)
        yield made


def _knows(sentinel: Server, replicas: int) -> bool:
    state = sentinel.client.sentinel_master(PRIMARY)
    return bool(state["num-other-sentinels"] == 2 and state["num-slaves"] == replicas)
