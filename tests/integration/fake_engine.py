"""A container engine in miniature, with the command line of docker: its containers are processes of its daemon.

So they are no descendants of the client, as docker's are not: they survive a client that is killed. ``SOCKET serve``
runs the daemon; any other words are those of a client.
"""

import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from omega.live.agent.process_tree import kill_all, marked

OF_RUN = ("--name", "--log-driver", "--mount", "--workdir", "--entrypoint", "--user", "--cpus", "--memory",
          "--memory-swap", "--env")  # options with a value # fmt: skip
OTHERS = ("--rm", "--init")


class Daemon(socketserver.ThreadingUnixStreamServer):
    """Runs containers: name → process, and what was asked."""

    daemon_threads = True

    def __init__(self, path: str) -> None:
        super().__init__(path, Call)
        self.containers: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, Any] = {}
        self.removed: list[str] = []


class Call(socketserver.StreamRequestHandler):
    """A request of a client: a line of JSON, and a line as the answer; signals in between."""

    server: Daemon

    def handle(self) -> None:
        asked = json.loads(self.rfile.readline())
        self.wfile.write(json.dumps(getattr(self, asked.pop("do"))(**asked)).encode() + b"\n")

    def version(self) -> dict[str, Any]:
        return {"code": 0, "text": "99.1"}

    def run(self, pid: int, options: dict[str, Any], words: list[str]) -> dict[str, Any]:
        name, (image, *rest) = options["--name"][0], words
        self.server.asked[name] = {"options": options, "words": words}
        if image == "absent":
            return {"code": 125, "error": "no such image"}
        if name in self.server.containers:
            return {"code": 125, "error": f"the name {name} is in use"}
        given = dict(each.split("=", 1) for each in options["--env"])
        del given["OMEGA_TASK_DIRECTORY"]  # an agent cannot read the variables of another account's processes
        environment = {"PATH": "/usr/bin:/bin", "CONTAINER": name, **given}
        output = Path(f"/proc/{pid}/fd")
        with (output / "1").open("wb") as out, (output / "2").open("wb") as err:
            process = subprocess.Popen(
                [options["--entrypoint"][0], *rest], cwd=options["--workdir"][0], env=environment, stdout=out,
                stderr=err, start_new_session=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self.server.containers[name] = {"process": process, "environment": environment, "cwd": options["--workdir"][0]}
        threading.Thread(target=self._signals, args=(process,), daemon=True).start()
        code = process.wait()
        end(name)  # with its first process
        if self.server.containers.get(name, {}).get("process") is process:
            del self.server.containers[name]
        return {"code": code if code >= 0 else 128 - code}

    def _signals(self, process: "subprocess.Popen[bytes]") -> None:
        for line in self.rfile:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, int(line))

    def rm(self, words: list[str]) -> dict[str, Any]:
        for name in words:
            self.server.removed.append(name)
            container = self.server.containers.pop(name, None)
            if container is not None:
                end(name)
                container["process"].wait()
        return {"code": 0}

    def exec(self, words: list[str]) -> dict[str, Any]:
        name, *command = words
        container = self.server.containers.get(name)
        if container is None:
            return {"code": 1, "error": "no such container"}
        done = subprocess.run(command, check=False, env=container["environment"], cwd=container["cwd"])
        return {"code": done.returncode}

    def look(self) -> dict[str, Any]:
        running = {name: each["process"].pid for name, each in self.server.containers.items()}
        return {"code": 0, "running": running, "asked": self.server.asked, "removed": self.server.removed}


def end(name: str) -> None:
    """Kill all processes of a container."""
    kill_all(lambda table: marked(f"CONTAINER={name}".encode()) & table.keys())


def ask(path: str, **asked: Any) -> dict[str, Any]:
    """Send a request to the daemon; SIGTERM is passed on to the container."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        line.sendall(json.dumps(asked).encode() + b"\n")
        signal.signal(signal.SIGTERM, lambda number, _: line.sendall(b"%d\n" % number))
        with line.makefile("rb") as answers:
            found: dict[str, Any] = json.loads(answers.readline())
            return found


def client(path: str, verb: str, *words: str) -> int:
    """Run a command of the client; returns its exit status."""
    options: dict[str, list[str]] = {"--env": []}
    left = list(words)
    if verb == "run":
        while left[0].startswith("-"):
            word = left.pop(0)
            value = left.pop(0) if word in OF_RUN else ""
            if word not in (*OF_RUN, *OTHERS):
                raise SystemExit(f"unknown flag: {word}")
            if word == "--env" and "=" not in value:
                if value not in os.environ:
                    continue
                value = f"{value}={os.environ[value]}"
            options.setdefault(word, []).append(value)
        answer = ask(path, do="run", pid=os.getpid(), options=options, words=left)
    elif verb == "version":
        answer = ask(path, do="version")
        sys.stdout.write(answer["text"] + "\n")
    else:
        while left[0].startswith("-"):
            left.pop(0)
        answer = ask(path, do=verb, words=left)
    sys.stderr.write(answer.get("error", ""))
    return int(answer["code"])


if __name__ == "__main__":
    place, first, *others = sys.argv[1:]
    if first == "serve":
        Daemon(place).serve_forever()
    sys.exit(client(place, first, *others))
