"""URLs of stores with several servers."""

from itertools import pairwise

import pytest
import redis

from omega.cellstate import server
from omega.cellstate.addresses import address_of, safe_url
from omega.cellstate.connections import Located, OfSentinels, OfSlot, Pool, WrongGroup
from omega.cellstate.errors import BadInput
from omega.cellstate.redis.calls import Connection
from omega.cellstate.server import Patience


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("valkey://u:p@m1:7000/3", "redis://u:p@m1:7000/3"),
        ("valkeys://m1", "rediss://m1"),
        ("redis://m1", "redis://m1"),
        ("unix:///run/s.sock?db=2", "unix:///run/s.sock?db=2"),
    ],
)
def test_one_server(url: str, plain: str) -> None:
    address = address_of(url)
    assert (address.url, address.group, address.nodes) == (plain, "", ())


def test_sentinels() -> None:
    address = address_of(
        "rediss+sentinel://ada:p%40ss@s1,s2:5000,[::1]:26380/main/4?sentinel_username=w&sentinel_password=x&ssl_cert_reqs=none"
    )
    assert address.nodes == (("s1", 26_379), ("s2", 5_000), ("::1", 26_380))
    assert (address.name, address.group, address.tls) == ("main", "sentinel", True)
    assert address.url == "rediss://ada:p%40ss@s1:26379/4?ssl_cert_reqs=none"
    assert address.sentinel_login == ("w", "x")


def test_a_cluster() -> None:
    address = address_of("valkey+cluster://c1:7000,c2")
    assert address.nodes == (("c1", 7_000), ("c2", 6_379))
    assert (address.group, address.url, address.tls) == ("cluster", "redis://c1:7000/", False)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://m1,m2", "names several servers; say .sentinel or .cluster"),
        ("redis+sentinel://s1,s2", "no name of a primary"),
        ("redis+sentinel://s1,s2/", "no name of a primary"),
        ("redis+sentinel://s1/main/db", "the database must be a number"),
        ("redis+cluster://c1/2", "a Cluster has database 0 only"),
        ("redis+cluster://c1?db=1", "a Cluster has database 0 only"),
        ("redis+cluster://c1,,c2", "not a list of HOST:PORT"),
        ("redis+cluster://c1:x,c2", "not a list of HOST:PORT"),
        ("redis+cluster://c1?sentinel_password=x", "options of Sentinels for a Cluster"),
        ("unix+cluster:///s", "not a URL of a store"),
        ("redis+more://c1", "not a URL of a store"),
        ("redis+sentinel://s1/main?nonsense=1", "an option after . is unknown"),
        ("redis+cluster://c1?protocol=4", "the protocol must be 2 or 3"),
        ("redis+cluster://c1:0", "not a list of HOST:PORT"),
        ("redis+cluster://c1:99999", "not a list of HOST:PORT"),
        ("redis+cluster://[::1", "not a list of HOST:PORT"),
        ("redis+cluster://", "not a list of HOST:PORT"),
        ("redis+sentinel:///run/s.sock/main", "not a list of HOST:PORT"),
        ("redis+sentinel://unix:/run/s.sock", "not a list of HOST:PORT"),
        ("redis+sentinel://s1/main?sentinel_username=u", "sentinel_username without sentinel_password"),
    ],
)
def test_what_makes_no_sense_is_refused(url: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        address_of(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis+sentinel://ada:secret@s1:1,s2:2/main", "redis+sentinel://ada:***@s1:1,s2:2/main"),
        ("redis+sentinel://s1/main?sentinel_password=secret", "redis+sentinel://s1/main?***"),
        ("redis+cluster://c1:secret,c2:2", "redis+cluster://c1:***"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    assert safe_url(url) == shown


class Sentinel:
    """Answers as a Sentinel with this configuration; None: it does not know the primary; or with an error."""

    def __init__(self, port: int | Exception | None, epoch: int = 0) -> None:
        self.port, self.epoch = port, epoch

    def execute_command(self, *words: str) -> list[bytes] | None:
        assert words == ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
        if isinstance(self.port, Exception):
            raise self.port
        return None if self.port is None else [b"10.0.0.1", str(self.port).encode()]

    def sentinel_master(self, name: str) -> dict[str, int]:
        return {"config-epoch": self.epoch}

    def close(self) -> None:
        """Nothing is open."""


def asked(*sentinels: Sentinel) -> OfSentinels:
    """Something that asks these."""
    hosts = ",".join(f"s{number}" for number in range(len(sentinels)))
    primary = OfSentinels(address_of(f"redis+sentinel://{hosts}/main"), {})
    primary.close()
    primary._sentinels = dict(zip(primary._sentinels, sentinels, strict=True))
    return primary


def test_of_two_sentinels_the_newer_configuration_counts() -> None:
    assert asked(Sentinel(1, 4), Sentinel(2, 5)).find() == ("10.0.0.1", 2)
    assert asked(Sentinel(1, 5), Sentinel(2, 4)).find() == ("10.0.0.1", 1)
    assert asked(Sentinel(None), Sentinel(1, 4), Sentinel(2, 5)).find() == ("10.0.0.1", 2)


def test_sentinels_that_all_answer_without_it_are_not_asked_again() -> None:
    with pytest.raises(WrongGroup, match="the Sentinels know no primary named 'main'; check the name in the URL"):
        asked(Sentinel(None), Sentinel(None)).find()
    wrong = Sentinel(redis.AuthenticationError("invalid username-password pair"))
    with pytest.raises(
        WrongGroup, match=r"the Sentinels refuse the login .* check sentinel_username and sentinel_pass"
    ):
        asked(wrong, wrong).find()
    with pytest.raises(WrongGroup, match="s0:26379 is no Sentinel; check the port"):
        asked(Sentinel(redis.ResponseError("unknown command 'SENTINEL'"))).find()


@pytest.mark.parametrize("error", [redis.ConnectionError("refused"), redis.TimeoutError("late"), OSError("no route")])
def test_as_long_as_a_sentinel_does_not_answer_it_may_know_the_primary(error: Exception) -> None:
    with pytest.raises(redis.ConnectionError, match=r"no Sentinel knows a primary named 'main' \(s0:26379: does not"):
        asked(Sentinel(None), Sentinel(error)).find()
    assert asked(Sentinel(error), Sentinel(None), Sentinel(7, 1)).find() == ("10.0.0.1", 7)


class Node:
    """A node of a Cluster whose slots all belong to a port; or one with an error."""

    def __init__(self, owner: int | Exception) -> None:
        self.owner, self.asked = owner, 0

    def execute_command(self, *words: str) -> list[object]:
        assert words == ("CLUSTER SLOTS",)
        self.asked += 1
        if isinstance(self.owner, Exception):
            raise self.owner
        return [[0, 16_383, [b"c", self.owner]]]

    def close(self) -> None:
        """Nothing is open."""


def of_slot(**nodes: Node) -> OfSlot:
    found = OfSlot([(name, 1) for name in nodes], {}, 0)
    found._clients = {(name, 1): node for name, node in nodes.items()}
    return found


@pytest.mark.chaos
def test_a_node_that_refused_a_command_is_asked_last() -> None:
    """One that is cut off from the others goes on to name itself."""
    primary = of_slot(c1=Node(1), c2=Node(2))
    assert primary.find() == ("c", 1)
    assert primary.find(("c1", 1)) == ("c", 2)


def test_servers_without_a_cluster_are_not_asked_again() -> None:
    single = Node(redis.ResponseError("This instance has cluster support disabled"))
    with pytest.raises(WrongGroup, match=r"c1:1 is not part of a Cluster; .* or write redis://HOST:PORT"):
        of_slot(c1=single, c2=single).find()
    with pytest.raises(redis.ConnectionError, match=r"no primary for it \(c1:1: .*; c2:1: BUSY"):
        of_slot(c1=single, c2=Node(redis.ResponseError("BUSY a script runs"))).find()


class Found:
    """A primary that moves."""

    def __init__(self) -> None:
        self.node, self.doubted = ("a", 1), list[object]()

    def find(self, doubted: object = None) -> tuple[str, int]:
        self.doubted.append(doubted)
        return self.node

    def close(self) -> None:
        """Nothing is open."""


def test_all_connections_of_a_pool_leave_the_last_primary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that got no error themselves: one connection that heard of the next primary is enough."""
    now = 100.0
    monkeypatch.setattr("omega.cellstate.connections.time.monotonic", lambda: now)
    primary = Found()
    located = Located(primary)
    assert (located.node, located.since()) == (("a", 1), 0.0)
    primary.node, now = ("b", 2), 100.5
    assert located.since() == 0.0, "the answer counts for a second"
    located.forget()
    assert located.node == ("b", 2)
    assert located.since() == 100.5
    assert primary.doubted == [None, ("a", 1)]


def test_while_nobody_knows_the_primary_commands_get_three_quarters_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sentinels behind a network that drops packets cost a second and a half for each question."""
    now, asked = 100.0, list[float]()
    monkeypatch.setattr("omega.cellstate.connections.time.monotonic", lambda: now)
    primary = Found()
    located = Located(primary)
    assert located.node == ("a", 1)

    def silent(doubted: object = None) -> tuple[str, int]:
        nonlocal now
        asked.append(now)
        now += 1.5
        raise redis.ConnectionError("nobody answers")

    monkeypatch.setattr(primary, "find", silent)
    for _ in range(200):
        now += 0.1
        assert located.since() == 0.0
        assert located._node == ("a", 1)
    gaps = [round(later - earlier, 1) for earlier, later in pairwise(asked)]
    assert len(gaps) > 2
    assert min(gaps) >= 4 * 1.5


def test_a_wait_for_a_primary_ends_and_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now, told, tried = 0.0, list[str](), 0
    monkeypatch.setattr("omega.cellstate.connections.time.monotonic", lambda: now)
    monkeypatch.setattr("redis.retry.sleep", lambda _: None)
    monkeypatch.setattr(Patience, "told", staticmethod(told.append))

    def call() -> None:
        nonlocal now, tried
        now, tried = now + 0.4, tried + 1
        raise redis.TimeoutError("silent")

    with pytest.raises(redis.TimeoutError):
        Patience().call_with_retry(call, lambda _: None)
    assert (told, tried) == (["silent"], 38)
    tried = 0

    def refused() -> None:
        nonlocal tried
        tried += 1
        raise redis.AuthenticationError("wrong")

    with pytest.raises(redis.AuthenticationError):
        Patience().call_with_retry(refused, lambda _: None)
    assert tried == 1


def test_the_protocol_is_an_option() -> None:
    kept = server.connect("redis+sentinel://s1/main?protocol=2").connection_pool
    assert kept.connection_kwargs["protocol"] == 2
    assert isinstance(kept, Pool)
    assert kept.located is not None
    primary = kept.located.primary
    assert isinstance(primary, OfSentinels)
    assert [each.connection_pool.connection_kwargs["protocol"] for each in primary._sentinels.values()] == [2]


@pytest.mark.parametrize(("url", "parts"), [("redis://m1", [4.0]), ("redis+sentinel://s1/main", [1.0, 1.0, 1.0, 1.0])])
def test_a_wait_for_work_is_cut_where_the_primary_may_change(url: str, parts: list[float]) -> None:
    """Between the parts the connection leaves a primary that is cut off, which would let it wait to the end."""
    waited = list[float]()

    class Calls:
        client = server.connect(url)

        @staticmethod
        def command(_: object, key: str, to: str, seconds: float, *ends: str) -> None:
            assert (key, to, ends) == ("k", "k", ("LEFT", "LEFT"))
            waited.append(seconds)

    assert not Connection.wait_at(Calls(), "k", 4.0)  # type: ignore[arg-type]
    assert waited == parts
