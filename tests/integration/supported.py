"""What a supported server has to do: a job's whole life by the commands of `omega`, a user per role, and what follows.

`rows` yields the table of docs/store-addresses.md; `make chaos` runs all of it, `make test` a part.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import click.testing

from omega.cellstate.connections import slot_of
from omega.cellstate.keys import ROLES, prefix
from omega.cli.main import omega as program
from tests.certificates import Certificates
from tests.conftest import ROOT
from tests.integration.stage import until
from tests.server_groups import Cluster, Sentinels, Single, cluster, sentinels, single
from tests.server_programs import SOURCES, WITH_TLS, Program
from tests.server_setup import Setup

PASSWORD = "s3cret"  # noqa: S105
CELL = "prod"
JOB = "name: {name}\nsimulate: true\ntasks: [{{count: 3, duration: 100ms, resources: {{cpu: 100m, memory: 16Mi}}}}]\n"
GROUPS: dict[str, Callable[[Setup], AbstractContextManager[Single | Sentinels | Cluster]]] = {
    "one server": single,
    "Sentinels": lambda setup: sentinels(replicas=1, setup=setup),
    "Cluster": lambda setup: cluster(2, setup),
}
TLS = {"Redis 7.0": True, "Redis 8.0": True, "Valkey 8.1": True, f"Valkey 9.1{WITH_TLS}": True}
"""The programs that were built with TLS."""


def rows() -> Iterator[str]:
    """Yield the rows of the table in docs/store-addresses.md."""
    for name in dict.fromkeys(each.removesuffix(WITH_TLS) for each in SOURCES):
        packages = [SOURCES[each][0] for each in SOURCES if each.removesuffix(WITH_TLS) == name]
        tls = any(TLS.get(each) for each in SOURCES if each.removesuffix(WITH_TLS) == name)
        yield f"| {name} | {'yes' if tls else 'not built in'} | {'; '.join(packages)} |"


@contextmanager
def running(program: Program, group: str, tls: Certificates | None, *, users: bool) -> Iterator["Trial"]:
    """Run a group of servers, with passwords where it has users."""
    setup = Setup(program.command, tls, PASSWORD if users else "")
    with GROUPS[group](setup) as servers:
        yield Trial(servers, setup)


class Trial:
    """Commands of `omega` against a group of servers, each by a user with its role."""

    def __init__(self, servers: Single | Sentinels | Cluster, setup: Setup) -> None:
        self.servers, self.setup = servers, setup
        self.files: dict[str, Path] = {}

    def prepare(self, folder: Path, protocol: int) -> None:
        """Write a store file for each role; with passwords also create the role's user on all servers."""
        for role in ROLES:
            file = self.files[role] = folder / f"{role}-{protocol}"
            login = ""
            if self.setup.password:
                login = f"omega-{role}:{role}-secret"
                self._create_user(role, folder)
            options = self._login_of_sentinels()
            file.touch(mode=0o600)
            file.write_text(self.servers.url_of(login, protocol=protocol, **options))

    def _create_user(self, role: str, folder: Path) -> None:
        secret = folder / "password"
        secret.touch(mode=0o600)
        secret.write_text(f"{role}-secret\n")
        version = self.servers.servers[0].client.info("server")["redis_version"]
        words = ("store", "acl", role, "--server-version", version, "--password-file", str(secret))
        line = self._invoke("--store", "redis://nowhere.invalid", "--cell", CELL, *words)
        for each in self.servers.servers:
            each.client.execute_command("ACL", "SETUSER", *line.split()[1:])

    def _login_of_sentinels(self) -> dict[str, str]:
        """Create the user of Sentinels that docs/store-addresses.md describes."""
        if not isinstance(self.servers, Sentinels) or not self.setup.password:
            return {}
        page = (ROOT / "docs" / "store-addresses.md").read_text()
        found = re.search(r"^user (\S+) on >PASSWORD (.*)$", page, re.MULTILINE)
        assert found is not None
        for each in self.servers.sentinels:
            each.client.execute_command("ACL", "SETUSER", found[1], "reset", "on", f">{PASSWORD}", *found[2].split())
        return {"sentinel_username": found[1], "sentinel_password": PASSWORD}

    def _invoke(self, *words: str, code: int = 0) -> str:
        result = click.testing.CliRunner().invoke(program, words, env={"OMEGA_STORE": None, "OMEGA_CELL": None})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, f"{words}: exit {result.exit_code}\n{result.stdout}\n{result.stderr}"
        return result.stdout

    def omega(self, role: str, *words: str, code: int = 0) -> str:
        """Run a command as the user of a role; returns what it prints."""
        return self._invoke("--store-file", str(self.files[role]), "--cell", CELL, *words, code=code)

    @contextmanager
    def at_work(self, folder: Path) -> Iterator[None]:
        """Run a scheduler and a simulated executor as processes; both must end well."""
        command = Path(sys.executable).with_name("omega")
        with ExitStack() as files:
            started = []
            for role, words in (("scheduler", ("scheduler", "run", "batch")), ("executor", ("machine", "simulate"))):
                log = files.enter_context((folder / f"{role}.log").open("w+"))
                named = [str(command), "--store-file", str(self.files[role]), "--cell", CELL, *words]
                started.append((subprocess.Popen(named, stdout=log, stderr=log), log))
            try:
                yield
            except BaseException as error:
                error.add_note("\n".join(Path(log.name).read_text() for _, log in started))
                raise
            finally:
                for process, _ in started:
                    process.terminate()
                ended = [(process.wait(120), Path(log.name).read_text()) for process, log in started]
        assert [code for code, _ in ended] == [0, 0], ended

    def run_a_job(self, name: str, folder: Path) -> None:
        """Submit a job and wait for its end."""
        file = folder / f"{name}.yaml"
        file.write_text(JOB.format(name=name))
        self.omega("submitter", "job", "submit", "--detach", str(file))
        self.omega("reader", "job", "wait", name, "--timeout", "180s")

    def disturb(self) -> None:
        """Let another server become the primary of the cell."""
        if isinstance(self.servers, Sentinels):
            old = self.servers.primary()
            self.servers.fail_over()
            old.start()
            until(lambda: old.client.info("replication")["role"] == "slave", "the old primary is a replica")
        if isinstance(self.servers, Cluster):
            slot = slot_of(prefix(CELL))
            before = self.servers.owner(slot)
            self.servers.move(slot, next(each for each in self.servers.servers if each is not before), atomic=False)

    def show(self, folder: Path) -> None:
        """Create a cell, run jobs before and after the servers were disturbed, verify it, replace it by its backup."""
        folder.mkdir()
        backup = str(folder / "backup")
        self.omega("person", "cell", "create", CELL, "--machines", "2", "--cpu", "4", "--memory", "4Gi")
        with self.at_work(folder):
            self.run_a_job("before", folder)
            self.disturb()
            self.run_a_job("after", folder)
        self.omega("reader", "cell", "verify")
        self.omega("reader", "store", "backup", backup)
        self.omega("person", "cell", "delete", "--yes")
        self.omega("person", "store", "restore", backup)
        self.omega("reader", "cell", "verify")
        assert '"finished"' in self.omega("reader", "--json", "job", "status", "after")
        self.omega("person", "cell", "delete", "--yes")
