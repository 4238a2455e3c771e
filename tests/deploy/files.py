"""The files of deploy/, parsed."""

import configparser
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.*"))
SERVICES = [path for path in UNITS if path.suffix == ".service"]


def read_yaml(name: str) -> Any:
    """Return the one document of a file."""
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def compose() -> dict[str, Any]:
    """Return the services of compose.yaml by name."""
    services: dict[str, Any] = read_yaml("compose.yaml")["services"]
    return services


def entrypoint() -> list[str]:
    """Return what the image of Omega runs before the words of a service."""
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    (found,) = (json.loads(line.removeprefix("ENTRYPOINT")) for line in lines if line.startswith("ENTRYPOINT"))
    return list(found)


def settings_of(path: Path) -> Mapping[str, list[tuple[str, str]]]:
    """Return the settings of a unit by section; a name may be there several times. Raises configparser.Error."""
    sections: dict[str, list[tuple[str, str]]] = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    counted = [f"{number}:{line}" if "=" in line and line[0] not in "#;" else line for number, line in enumerate(lines)]
    parser = configparser.ConfigParser(strict=True, delimiters="=", interpolation=None, empty_lines_in_values=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string("\n".join(counted))
    for name in parser.sections():
        sections[name] = [(key.partition(":")[2], value) for key, value in parser[name].items()]
    return sections


def environment(path: Path, name: str = "") -> dict[str, str]:
    """Return what a unit sets in the environment of its process; `name` is that of the instance."""
    found: dict[str, str] = {}
    for setting, value in settings_of(path)["Service"]:
        if setting == "EnvironmentFile" and not value.startswith("-"):
            lines = (DEPLOY / "systemd" / Path(value).name).read_text(encoding="utf-8").splitlines()
            found |= dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        elif setting == "Environment":
            key, _, text = value.partition("=")
            found[key] = text.replace("%i", name)
    for setting, value in settings_of(path)["Service"]:
        if setting == "UnsetEnvironment":
            found.pop(value)
    return found


def commands_of_units(setting: str = "ExecStart") -> Iterator[tuple[str, list[str]]]:
    """Yield (file, words) of what each service runs."""
    for path in SERVICES:
        for name, value in settings_of(path)["Service"]:
            if name == setting:
                yield path.name, [word.replace("$$", "$").replace("%%", "%") for word in shlex.split(value)]


def expressions() -> Iterator[tuple[str, str]]:
    """Yield (where, PromQL) of all alerts and panels."""
    for group in read_yaml("alerts.yaml")["groups"]:
        for rule in group["rules"]:
            yield f"alert {rule['alert']}", rule["expr"]
    for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield f"panel {panel['title']}", target["expr"]
