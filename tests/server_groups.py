"""Servers of tests that belong together: a primary with replicas and Sentinels, or the nodes of a Cluster."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import redis

from tests.conftest import end_with_parent, find_server, socket_directory
from tests.server_setup import Setup

DOWN_AFTER_MS = 1_500
"""With 1,000 or less, Sentinels take each new primary for dead before they connect to it, which they do after 1 s, and
sometimes promote another one."""
PRIMARY = "omega"
SLOTS = 16_384


def free_ports(number: int) -> list[int]:
    """Return ports that nobody listens on, below those that the system gives to clients."""
    found: list[int] = []
    candidate = 10_000 + hash(time.monotonic_ns()) % 9_000
    while len(found) < number:
        candidate += 1
        with socket.socket() as tried, socket.socket() as bus:
            try:
                tried.bind(("127.0.0.1", candidate))
                bus.bind(("127.0.0.1", candidate + 10_000))  # of a Cluster's nodes among themselves
            except OSError:
                continue
        found.append(candidate)
    return found


def until(what: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Return a result that counts as true, tried until then; fail after some seconds."""
    last, end = None, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            last = what()
        except (redis.RedisError, OSError) as error:
            last = error
        else:
            if last:
                return last
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:g} s: {last!r}")


@dataclass(eq=False)
class Server:
    """A server process on a port of this computer."""

    port: int
    directory: Path
    options: Sequence[str] = ()
    sentinel: bool = False
    setup: Setup = field(default_factory=Setup)
    login: tuple[str, str] | None = None
    """User and password of the harness, where it is not the default user."""
    process: "subprocess.Popen[bytes] | None" = None

    client: Any = field(init=False)
    """Of this one server."""

    def __post_init__(self) -> None:
        self.client = self.setup.client(self.port, self.login)

    def start(self, *more: str) -> "Server":
        """Start the process, with further words on its command line, and wait until it answers."""
        program = self.setup.program or [found for found in [find_server()] if found]
        assert program
        folder = self.directory / str(self.port)
        folder.mkdir(exist_ok=True)
        file = folder / "server.conf"
        if not file.exists():
            lines = (*self.setup.options(self.port, sentinel=self.sentinel), f"dir {folder}", *self.options)
            file.write_text("".join(f"{line}\n" for line in lines))
        command = [*program, str(file), *(["--sentinel"] if self.sentinel else []), *more]
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=end_with_parent)  # noqa: PLW1509
        until(self.client.ping)
        return self

    def halt(self) -> None:
        """Let the process stand still (SIGSTOP)."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process go on (SIGCONT)."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    @property
    def replication(self) -> dict[str, Any]:
        """Its role, offset and links, as INFO has them."""
        return dict(self.client.info("replication"))

    @property
    def replicas_in_step(self) -> int:
        """How many replicas follow it and were heard of within the last second."""
        links = [each for name, each in self.replication.items() if name.startswith("slave") and isinstance(each, dict)]
        return sum(each["state"] == "online" and each["lag"] <= 1 for each in links)

    def cut_off(self) -> None:
        """Let a replica lose its primary, and not find it again before `rejoin`; it goes on to answer."""
        self.client.config_set("masterauth", "wrong")  # the primary has no password and refuses one
        self.client.execute_command("CLIENT", "KILL", "TYPE", "master")

    def rejoin(self) -> None:
        """Let a replica that was cut off follow its primary again."""
        self.client.config_set("masterauth", "")

    def kill(self) -> None:
        """End the process at once."""
        self.client.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class Single:
    """One server on a port."""

    servers: list[Server]

    def url_of(self, login: str = "", **query: object) -> str:
        """Return the URL of the store for a user, USER:PASSWORD."""
        return self.servers[0].setup.url("", [self.servers[0].port], "", login, **query)


@contextmanager
def single(setup: Setup | None = None) -> Iterator[Single]:
    """Run one server, in memory alone."""
    server = Server(free_ports(1)[0], socket_directory(), ("save ''", "appendonly no"), setup=setup or Setup())
    try:
        yield Single([server.start()])
    finally:
        server.kill()


@dataclass
class Sentinels:
    """A primary, its replicas and their Sentinels."""

    servers: list[Server]
    sentinels: list[Server]

    @property
    def url(self) -> str:
        """Return the URL of the store."""
        return self.url_of()

    def url_of(self, login: str = "", **query: object) -> str:
        """Return the URL of the store for a user, USER:PASSWORD; `query`: further options."""
        setup = self.servers[0].setup
        if setup.password:
            query = {"sentinel_password": setup.password, **query}
        return setup.url("sentinel", [each.port for each in self.sentinels], f"/{PRIMARY}", login, **query)

    def primary(self) -> Server:
        """Return the server that the Sentinels name."""
        return self._named_by(self.sentinels[0])

    def replicas(self) -> list[Server]:
        """Return the servers that run and are not the primary."""
        primary = self.primary()
        return [each for each in self.servers if each is not primary and each.process is not None]

    def start_again(self, killed: Server, primary: Server) -> None:
        """Start a server that was killed as a replica, as a service manager would."""
        killed.start("--replicaof", f"127.0.0.1 {primary.port}", "--masterauth", "")

    def in_step(self) -> bool:
        """Return whether every server runs and follows, and all Sentinels find them so."""
        others, named = len(self.servers) - 1, self.named()
        agreed = len(named) == 1 and self.primary().replicas_in_step == others
        return agreed and all(self._content(each, others) for each in self.sentinels)

    def _content(self, sentinel: Server, replicas: int) -> bool:
        """Return whether a Sentinel has no doubt about any of the servers."""
        followers = sentinel.client.sentinel_slaves(PRIMARY)
        doubtful = any(each["is_sdown"] or each["is_disconnected"] for each in followers)
        master = sentinel.client.sentinel_master(PRIMARY)
        links = [each["master-link-status"] == "ok" for each in followers]
        return not doubtful and len(links) == replicas and all(links) and not (master["is_sdown"] or master["is_odown"])

    def epoch(self) -> int:
        """Return the number of the present configuration: each failover that succeeds has a larger one."""
        return max(int(each.client.sentinel_master(PRIMARY)["config-epoch"]) for each in self.sentinels)

    def named(self) -> set[Server]:
        """Return the servers that at least one Sentinel names as the primary."""
        return {self._named_by(each) for each in self.sentinels}

    def _named_by(self, sentinel: Server) -> Server:
        _, port = sentinel.client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", PRIMARY)
        return next(each for each in self.servers if each.port == int(port))

    def stop_replication(self) -> None:
        """Let the replicas lack what is written from now on; Sentinels repair that after about eight seconds."""
        for each in self.servers:
            if each is not self.primary():
                each.client.execute_command("REPLICAOF", "127.0.0.1", 1)  # nobody listens there

    def fail_over(self) -> Server:
        """Kill the primary and return the next one."""
        old = self.primary()
        old.kill()
        return self.next_after(old)

    def next_after(self, old: Server) -> Server:
        """Wait until another server is the primary for all Sentinels, and return it."""
        until(lambda: all(self._named_by(each) is not old for each in self.sentinels))
        new = self.primary()
        until(lambda: new.client.info("replication")["role"] == "master")
        return new


@contextmanager
def sentinels(
    replicas: int = 2,
    setup: Setup | None = None,
    *,
    options: Sequence[str] = (),
    of_sentinels: Sequence[str] = (),
    login: tuple[str, str] | None = None,
    sentinel_login: tuple[str, str] | None = None,
    ports: Sequence[int] = (),
) -> Iterator[Sentinels]:
    """Run a primary with replicas and three Sentinels, in memory alone.

    `options` and `of_sentinels` are further lines of their configuration, which override the harness's own; the logins
    are those of the harness where the lines require one. `ports`: of the servers, then of the Sentinels.
    """
    directory, setup = socket_directory(), setup or Setup()
    ports = ports or free_ports(replicas + 4)
    memory = ("save ''", "appendonly no", "repl-diskless-sync-delay 0")
    follow = f"replicaof 127.0.0.1 {ports[0]}"
    servers = [
        Server(port, directory, (*memory, *options, *([follow] if port != ports[0] else [])), setup=setup, login=login)
        for port in ports[: replicas + 1]
    ]
    watch = (
        f"sentinel monitor {PRIMARY} 127.0.0.1 {ports[0]} 2",
        f"sentinel down-after-milliseconds {PRIMARY} {DOWN_AFTER_MS}",
        f"sentinel failover-timeout {PRIMARY} 5000",
        *([f"sentinel auth-pass {PRIMARY} {setup.password}"] if setup.password else []),
        *of_sentinels,
    )
    watchers = [
        Server(port, directory, watch, sentinel=True, setup=setup, login=sentinel_login)
        for port in ports[replicas + 1 :]
    ]
    try:
        for each in servers:
            each.start()
        until(lambda: servers[0].client.info("replication")["connected_slaves"] == replicas)
        for each in watchers:
            each.start()
        for each in watchers:
            until(partial(_knows, each, sentinels=2, replicas=replicas))
        yield Sentinels(servers, watchers)
    finally:
        for each in (*watchers, *servers):
            each.kill()


def _knows(watcher: Server, sentinels: int, replicas: int) -> bool:
    state = watcher.client.sentinel_master(PRIMARY)
    return bool(state["num-other-sentinels"] == sentinels and state["num-slaves"] == replicas)


@dataclass
class Cluster:
    """The primaries of a Cluster."""

    servers: list[Server]

    @property
    def url(self) -> str:
        """Return the URL of the store."""
        return self.url_of()

    def url_of(self, login: str = "", **query: object) -> str:
        """Return the URL of the store for a user, USER:PASSWORD."""
        return self.servers[0].setup.url("cluster", [each.port for each in self.servers], "", login, **query)

    def move(self, slot: int, to: Server, *, atomic: bool) -> None:
        """Move a slot to another node, by Valkey's MIGRATESLOTS or key by key."""
        source = self.owner(slot)
        ids = {each.port: each.client.execute_command("CLUSTER", "MYID").decode() for each in (source, to)}
        if atomic:
            words = "SLOTSRANGE", slot, slot, "NODE", ids[to.port]
            source.client.execute_command("CLUSTER", "MIGRATESLOTS", *words)
            until(lambda: self.owner(slot) is to)
            return
        to.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.port])
        source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to.port])
        login = ("AUTH", to.setup.password) if to.setup.password else ()
        while names := source.client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            for name in names:
                source.client.execute_command("MIGRATE", "127.0.0.1", to.port, name, 0, 5_000, *login)
        for each in (to, *self.servers):
            each.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[to.port])

    def owner(self, slot: int) -> Server:
        """Return the server that holds a slot."""
        ranges: Any = self.servers[0].client.execute_command("CLUSTER SLOTS")
        port = next(
            each["primary"][1] if isinstance(each, dict) else each[2][1]
            for (first, last), each in _spans(ranges)
            if first <= slot <= last
        )
        return next(each for each in self.servers if each.port == port)


def _spans(ranges: Any) -> Iterator[tuple[tuple[int, int], Any]]:
    yield from (
        ranges.items()
        if isinstance(ranges, dict)
        else (((first, last), (first, last, *of)) for first, last, *of in ranges)
    )


@contextmanager
def cluster(primaries: int = 3, setup: Setup | None = None, *, ports: Sequence[int] = ()) -> Iterator[Cluster]:
    """Run the primaries of a Cluster, in memory alone, with the slots divided among them."""
    directory, setup = socket_directory(), setup or Setup()
    memory = ("save ''", "appendonly no", "cluster-enabled yes", "cluster-node-timeout 2000")
    servers = [Server(port, directory, memory, setup=setup) for port in ports or free_ports(primaries)]
    try:
        for each in servers:
            each.start()
        for number, each in enumerate(servers):
            first, end = SLOTS * number // primaries, SLOTS * (number + 1) // primaries
            each.client.execute_command("CLUSTER", "ADDSLOTS", *range(first, end))
            each.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            servers[0].client.execute_command("CLUSTER", "MEET", "127.0.0.1", each.port)
        for each in servers:
            until(partial(_is_whole, each, primaries))
        yield Cluster(servers)
    finally:
        for each in servers:
            each.kill()


def _is_whole(server: Server, nodes: int) -> bool:
    info = cluster_info(server)
    return b"cluster_state:ok" in info and b"cluster_known_nodes:%d" % nodes in info


def cluster_info(server: Server) -> bytes:
    """Return what a node of a Cluster knows of its state."""
    answer: Any = server.client.execute_command("CLUSTER", "INFO")
    if isinstance(answer, dict):
        return b"".join(f"{name}:{value}\n".encode() for name, value in answer.items())
    return answer if isinstance(answer, bytes) else str(answer).encode()
