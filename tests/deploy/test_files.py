"""The files of deploy/ are whole: each is parsed, images are pinned, units and their commands are valid."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import find_server
from tests.deploy.files import (
    DEPLOY,
    SERVICES,
    UNITS,
    commands_of_units,
    compose,
    entrypoint,
    expressions,
    read_yaml,
    settings_of,
)
from tests.deploy.promql import grouped_by, selectors
from tests.tutorial.page import DOCS
from tests.tutorial.test_pages import understood

PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+\.\d+(-[\w-]+)?")
OMEGA = "/opt/omega/bin/omega"
SERVER = "/usr/bin/valkey-server"
HARDENED = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "CapabilityBoundingSet": ""}


def test_every_image_has_a_version() -> None:
    images = {each["image"] for each in compose().values()}
    images |= set(re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text("utf-8"), re.MULTILINE))
    assert len(images) == 5
    assert [image for image in sorted(images) if not PINNED.fullmatch(image)] == []


def test_a_tag_that_moves_is_no_version() -> None:
    for image in ("valkey/valkey", "valkey/valkey:latest", "grafana/grafana:12", "omega:0.1"):
        assert not PINNED.fullmatch(image)


def test_services_are_those_of_the_page() -> None:
    services = compose()
    for kind, number in {"store-": 3, "sentinel-": 3, "scheduler-": 2, "agent-": 2}.items():
        assert sum(name.startswith(kind) for name in services) == number
    assert all(each["restart"] in ("unless-stopped", "no") for each in services.values())
    for name, each in services.items():
        needed = each.get("depends_on", [])
        assert set(needed) <= set(services), name
        for volume in each.get("volumes", []):
            inside = volume.partition(":")[0]
            assert inside.startswith("./data/") or (DEPLOY / inside).exists(), volume


def test_only_metrics_are_published_and_on_this_computer_alone() -> None:
    ports = {name: each["ports"] for name, each in compose().items() if "ports" in each}
    assert set(ports) == {"prometheus", "grafana", "web"}
    assert all(port.startswith("127.0.0.1:") for of in ports.values() for port in of)


def test_no_password_is_in_a_file_a_command_or_an_environment() -> None:
    for name, each in compose().items():
        words = [*each.get("command", []), *each.get("entrypoint", []), *each.get("environment", {}).values()]
        words = [word for word in words if not word.startswith("/run/secrets/")]
        assert not [word for word in words if "redis" in word or "pass" in word], name
    for name, words in commands_of_units():
        assert not [word for word in words if "://" in word or "--store" in word], name
    for path in (*UNITS, DEPLOY / "store.conf", DEPLOY / "sentinel.conf"):
        assert not re.search(r"requirepass|masterauth|auth-pass|redis\S*://", path.read_text("utf-8")), path


def test_commands_of_roles_have_options_that_exist() -> None:
    seen = 0
    for name, each in compose().items():
        if each["image"].startswith("omega:") and "command" in each:
            assert entrypoint() == ["omega"]
            understood(each["command"])
            seen += 1
        elif name.startswith(("store-", "sentinel-")):
            assert each["command"][0] == "valkey-server"
    for name, words in commands_of_units():
        assert words[0] in (OMEGA, SERVER), name
        if words[0] == OMEGA:
            understood([word.replace("%i", "batch") for word in words[1:]])
            seen += 1
    assert seen == 9


def test_units_start_servers_as_the_containers_do() -> None:
    commands = dict(commands_of_units())
    for kind in ("store", "sentinel"):
        _, *words = commands[f"omega-{kind}.service"]
        assert compose()[f"{kind}-1"]["command"][1:] == [
            word.replace(f"/var/lib/omega-{kind}", "/data") for word in words
        ]


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_units_restart_and_are_hardened(path: Path) -> None:
    parts = settings_of(path)
    settings = dict(parts["Service"])
    assert set(parts) <= {"Unit", "Service", "Install"}
    if settings.get("Type") == "oneshot":
        assert path.with_suffix(".timer").exists()
    else:
        assert settings["Restart"] in ("always", "on-failure")
        assert ("WantedBy", "multi-user.target") in parts["Install"]
    if "--run-as" in settings["ExecStart"]:
        assert ("StateDirectory", "omega-agent") in parts["Service"]
        return
    assert settings["User"].startswith("omega")
    assert {name: settings.get(name) for name in HARDENED} == HARDENED


def test_24_backups_and_one_a_day_are_kept(tmp_path: Path) -> None:
    """What the unit does after each backup, in 40 days of hours by another clock."""
    (words,) = (words for name, words in commands_of_units("ExecStartPost") if name == "omega-backup.service")
    clock, kept = tmp_path / "bin" / "date", tmp_path / "kept"
    clock.parent.mkdir()
    kept.mkdir()
    clock.write_text("#!/bin/sh\ncase $2 in +%H) echo $HOUR;; +%d) echo $DAY;; esac\n", encoding="utf-8")
    clock.chmod(0o755)
    for number in (*range(36), *range(24 * 31, 24 * 33)):
        day, hour = divmod(number, 24)
        (kept / "new").write_text(str(number), encoding="utf-8")
        (kept / "new").replace(kept / "latest.omega")
        env = {"PATH": f"{clock.parent}:/usr/bin:/bin", "HOUR": f"{hour:02}", "DAY": f"{day % 31 + 1:02}"}
        subprocess.run(words, cwd=kept, env=env, check=True, timeout=60)
    found = {path.name: int(path.read_text("utf-8")) for path in kept.iterdir()}
    assert found.pop("latest.omega") == 24 * 33 - 1
    assert {name: found.pop(f"hour-{name:02}.omega") for name in range(24)} == {
        hour: 24 * 32 + hour for hour in range(24)
    }
    assert found == {"day-01.omega": 24 * 32 - 1, "day-02.omega": 24 * 33 - 1}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_reads_the_units_without_a_complaint(tmp_path: Path) -> None:
    """The programs are those of this computer: systemd refuses a unit whose program is missing."""
    omega, server = Path(sys.executable).with_name("omega"), find_server()
    assert server is not None
    for path in UNITS:
        text = path.read_text(encoding="utf-8").replace(OMEGA, str(omega)).replace(SERVER, str(server))
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    words = ["systemd-analyze", "verify", "--man=no"]
    units = [str(path) for path in sorted(tmp_path.iterdir()) if path.suffix in (".service", ".timer")]
    done = subprocess.run([*words, *units], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    broken = tmp_path / "omega-agent.service"
    broken.write_text(broken.read_text("utf-8").replace("Restart=on-failure", "Restart=sometimes"), encoding="utf-8")
    done = subprocess.run([*words, str(broken)], capture_output=True, text=True, check=False, timeout=60)
    assert "sometimes" in done.stderr, "a wrong setting is found"


def test_prometheus_scrapes_every_role() -> None:
    targets = {
        target
        for job in read_yaml("prometheus.yaml")["scrape_configs"]
        for static in job["static_configs"]
        for target in static["targets"]
    }
    served = {
        f"{name}:{word.rpartition(':')[2]}"
        for name, each in compose().items()
        for option, word in zip(each.get("command", []), each.get("command", [])[1:], strict=False)
        if option in ("--metrics", "--listen")
    }
    assert targets == served
    assert {"scheduler", "agent", "web"} <= {target.partition("-")[0].partition(":")[0] for target in targets}
    assert read_yaml("prometheus.yaml")["rule_files"] == ["alerts.yaml"]


def test_grafana_finds_its_dashboard_and_prometheus() -> None:
    (source,) = read_yaml("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    (provider,) = read_yaml("grafana/provisioning/dashboards/omega.yaml")["providers"]
    mounted = dict(volume.split(":")[:2] for volume in compose()["grafana"]["volumes"])
    assert provider["options"]["path"] == mounted["./grafana/dashboards"]
    assert source["url"] == "http://prometheus:9090"
    board = json.loads((DEPLOY / "grafana/dashboards/omega.json").read_text("utf-8"))
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {source["uid"]}
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in board["panels"]]
    assert len(set(places)) == len(places) == len({each["id"] for each in board["panels"]})
    assert all(panel["targets"] for panel in board["panels"])


def test_every_alert_is_on_the_page_of_operations() -> None:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    alerts = [where.removeprefix("alert ") for where, _ in expressions() if where.startswith("alert ")]
    assert len(alerts) > 8
    assert [name for name in alerts if f"`{name}`" not in page] == []
    assert [name for name in re.findall(r"`(Omega[A-Z]\w+)`", page) if name not in alerts] == []


@pytest.mark.parametrize(
    ("expression", "metrics", "grouped"),
    [
        ('up{job=~"omega-.*"} == 0', {"up": {"job"}}, set()),
        ("time() - a_seconds > 15", {"a_seconds": set()}, set()),
        ("max by (cell) (a / (b > 0)) > 0.8 and c offset 5m", {"a": set(), "b": set(), "c": set()}, {"cell"}),
        (
            'histogram_quantile(0.9, sum by (cell, le) (rate(x_bucket{cell="$cell", k!="{z}"}[5m]))) > 5e3',
            {"x_bucket": {"cell", "k"}},
            {"cell", "le"},
        ),
        ("sum without (a) (x) / on (b) group_left (c) y", {"x": set(), "y": set()}, {"a", "b", "c"}),
    ],
)
def test_metrics_and_labels_of_an_expression(expression: str, metrics: dict[str, set[str]], grouped: set[str]) -> None:
    assert dict(selectors(expression)) == metrics
    assert grouped_by(expression) == grouped
