"""The services of deploy/compose.yaml run a job with the commands of the file, and serve what the dashboard shows."""

import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families
from redis.backoff import NoBackoff
from redis.retry import Retry

from omega.client.store_file import read
from tests.cli.conftest import Omega
from tests.deploy.files import compose, expressions, read_yaml
from tests.deploy.processes import Deployment, deployment
from tests.deploy.promql import grouped_by, selectors
from tests.server_groups import until

pytestmark = pytest.mark.server
OF_PROMETHEUS = {"up": {"job", "instance"}}
Served = Mapping[str, set[str]]
"""Labels by the name of a sample."""


@pytest.fixture(scope="module")
def running() -> Iterator[Deployment]:
    services = list(compose())
    with deployment() as made:
        made.start(*(name for name in services if name.startswith(("store-", "sentinel-"))), "cell")
        assert made.processes["cell"].wait(120) == 0, made.printed("cell")
        made.start(*made.roles)
        for name in made.roles:
            made.ready(name)
        yield made


@pytest.fixture
def omega(running: Deployment) -> Omega:
    return Omega(read(str(running.store_file)), "prod")


def unknown(served: Served, found: Iterator[tuple[str, str]]) -> list[str]:
    """Return the metrics and labels of expressions that nobody serves."""
    wrong = []
    for where, expression in found:
        labels = set[str]()
        for name, matched in selectors(expression):
            labels |= served.get(name, set())
            wrong += [f"{where}: {name}"] * (name not in served)
            wrong += [f"{where}: {name}{{{label}}}" for label in sorted(matched - served.get(name, matched))]
        wrong += [f"{where}: by {label}" for label in sorted(grouped_by(expression) - labels)] if labels else []
    return wrong


def served_by(running: Deployment) -> Served:
    """Return what schedulers, agents and the console serve."""
    served: dict[str, set[str]] = {name: set(labels) for name, labels in OF_PROMETHEUS.items()}
    for role in running.roles:
        url, headers = f"http://127.0.0.1:{running.ports[role]}/metrics", dict[str, str]()
        if role == "web":  # as Prometheus asks for it
            (scraped,) = (each for each in read_yaml("prometheus.yaml")["scrape_configs"] if "authorization" in each)
            secret = running.folder / "secrets" / Path(scraped["authorization"]["credentials_file"]).name
            headers = {"Authorization": f"Bearer {secret.read_text('utf-8')}", "Host": f"web:{running.ports['web']}"}
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                served.setdefault(sample.name, set()).update(sample.labels)
    return served


@pytest.mark.chaos
def test_a_job_runs_to_its_end(running: Deployment, omega: Omega) -> None:
    for kind in ("batch", "service"):
        words = ("--name", kind, "--kind", kind, "--count", "2", "--cpu", "100m", "--memory", "16Mi")
        omega.run("job", "run", "--follow", *words, "--", "true")
        assert omega.json("job", "status", kind)["state"] == "finished"
    assert {each["name"] for each in omega.json("machine", "list")["machines"]} == {"agent-1", "agent-2"}
    assert omega.json("cell", "verify")["ok"]


@pytest.mark.chaos
def test_units_run_what_they_name(running: Deployment, omega: Omega) -> None:
    names = [running.start_unit("omega-scheduler@.service", "batch"), running.start_unit("omega-agent.service")]
    backup = running.start_unit("omega-backup.service")
    for name in names:
        running.ready(name)
    members = [each["member"] for each in omega.json("scheduler", "list")["schedulers"] if each["alive"]]
    assert sorted(members) == ["batch/0", "batch/1", "service/0"]
    words = ("--name", "there", "--constraint", "of == 'systemd'", "--cpu", "100m", "--memory", "16Mi")
    omega.run("job", "run", "--follow", *words, "--", "true")
    assert running.processes[backup].wait(60) == 0, running.printed(backup)
    made = running.folder / "omega-backup" / "latest.omega"
    assert made.stat().st_mode & 0o777 == 0o600
    assert "prod" in running.printed(backup)
    for name in names:
        running.processes[name].terminate()
        assert running.processes[name].wait(60) == 0, running.printed(name)


def test_every_metric_of_alerts_and_dashboard_is_served(running: Deployment, omega: Omega) -> None:
    omega.run("pool", "set", "research", "--weight", "2")
    until(lambda: "omega_pool_usage" in served_by(running), 60.0)
    served = served_by(running)
    assert unknown(served, expressions()) == []
    assert "omega_web_read_timestamp_seconds" in served
    assert sum(len(list(selectors(each))) for _, each in expressions()) > 30
    found = [("a", "rate(omega_scheduler_waits_seconds_bucket[5m])"), ("b", 'omega_cell_machines{stat="up"}')]
    found += [("c", "sum by (cel) (omega_cell_tasks)")]
    assert unknown(served, iter(found)) == [
        "a: omega_scheduler_waits_seconds_bucket",
        "b: omega_cell_machines{stat}",
        "c: by cel",
    ]


def test_schedulers_measure_the_store(running: Deployment) -> None:
    url = f"http://127.0.0.1:{running.ports['scheduler-batch']}/metrics"

    def samples() -> dict[str, float]:
        with urllib.request.urlopen(url, timeout=10) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return {each.name + each.labels.get("state", ""): each.value for of in families for each in of.samples}

    until(lambda: samples()["omega_store_replicas"] == 2 and samples()["omega_cell_machinesup"] == 2, 60.0)
    found = samples()
    assert found["omega_store_memory_limit_bytes"] == 2**30
    assert 0 < found["omega_store_memory_bytes"] < 2**30
    assert found["omega_store_refuses_writes"] == 0
    assert time.time() - found["omega_scheduler_renewed_timestamp_seconds"] < 60


def test_servers_and_sentinels_want_their_passwords(running: Deployment) -> None:
    for name in ("store-1", "store-3", "sentinel-2"):
        once = Retry(NoBackoff(), 0)
        with redis.Redis(port=running.ports[name], retry=once) as client, pytest.raises(redis.AuthenticationError):
            client.ping()
    for path in (running.store_file, *(running.folder / "data").glob("*/*.conf")):
        assert path.parent.stat().st_mode & 0o077 == 0, "Sentinels write their file anew, with another mode"


@pytest.mark.chaos
def test_a_failover_ends_no_task(running: Deployment, omega: Omega) -> None:
    """The settings of the files, not those of other tests: the primary is given up after 5 s."""
    words = ("--name", "long", "--count", "2", "--cpu", "100m", "--memory", "16Mi")
    omega.run("job", "run", *words, "--", "sleep", "40")
    until(lambda: omega.json("job", "status", "long")["counts"]["placed"] == 2, 60.0)
    running.processes["store-1"].kill()
    running.processes["store-1"].wait()
    omega.run("job", "run", "--follow", "--name", "after", "--cpu", "100m", "--memory", "16Mi", "--", "true")
    assert omega.json("job", "status", "long")["counts"]["placed"] == 2
    running.start("store-1")
    omega.run("job", "wait", "long")
    assert omega.json("job", "status", "long")["counts"]["finished"] == 2
    assert omega.json("cell", "verify")["ok"]
