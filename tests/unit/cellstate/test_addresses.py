"""URLs of stores with several servers."""

import pytest
import redis

from omega.cellstate import server
from omega.cellstate.addresses import address_of, safe_url
from omega.cellstate.connections import Pool
from omega.cellstate.errors import BadInput
from omega.cellstate.primaries import OfSentinels


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
    """Answers as a Sentinel with this configuration; None: it does not know the primary."""

    def __init__(self, port: int | None, epoch: int = 0) -> None:
        self.port, self.epoch = port, epoch

    def execute_command(self, *words: str) -> list[bytes] | None:
        assert words == ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
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
    with pytest.raises(redis.ConnectionError, match=r"no Sentinel knows a primary named 'main' \(s0:26379: does not"):
        asked(Sentinel(None), Sentinel(None)).find()


def test_the_protocol_is_an_option() -> None:
    kept = server.connect("redis+sentinel://s1/main?protocol=2").connection_pool
    assert kept.connection_kwargs["protocol"] == 2
    assert isinstance(kept, Pool)
    assert kept.located is not None
    primary = kept.located.primary
    assert isinstance(primary, OfSentinels)
    assert [each.connection_pool.connection_kwargs["protocol"] for each in primary._sentinels.values()] == [2]
