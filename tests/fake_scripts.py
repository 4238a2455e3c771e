"""Scripts of fake servers: compiled once per process, as a real server compiles them, and with its packer of numbers.

Without this module each call compiles its script anew, and each fake server starts an interpreter that is never freed:
half of the processor time of the tests that use fake servers.
"""

import threading
from pathlib import Path
from typing import Any

from fakeredis import FakeServer
from fakeredis.commands_mixins.scripting_mixin import ScriptingCommandsMixin

COLLECT = "collectgarbage()"
CALLS = 200
"""Calls of scripts between two collections of garbage, which otherwise follow each call."""
STRUCT = Path(__file__).with_name("struct.lua").read_bytes()
start = ScriptingCommandsMixin._get_server_runtime
_shared: dict[str, dict[str, Any]] = {}
"""What fake servers keep of the interpreter, by their type; those that first run a script in another thread share none.
"""


class Compiled:
    """An interpreter that keeps the compiled form of what it executes."""

    def __init__(self, runtime: Any) -> None:
        self.runtime, self.known, self.calls = runtime, dict[bytes | str, Any](), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runtime, name)

    def execute(self, script: bytes | str) -> Any:
        if script == COLLECT:
            self.calls += 1
            return self.runtime.execute(script) if self.calls % CALLS == 0 else None
        compiled = self.known.get(script)
        if compiled is None:
            compiled = self.known[script] = self.runtime.compile(script)
        return compiled()


def runtime_of(commands: ScriptingCommandsMixin, server: FakeServer) -> Any:
    """Return the interpreter of a fake server: in the main thread that of the others."""
    own: Any = server
    if not hasattr(own, "_lua_runtime"):
        first = threading.current_thread() is threading.main_thread()
        if first and server.server_type in _shared:
            vars(own).update(_shared[server.server_type])
        else:
            own._lua_runtime = Compiled(start(commands, server))
            own._lua_runtime.execute(STRUCT)
            own._lua_expected_globals.add(b"struct")
            if first:
                _shared[server.server_type] = {name: vars(own)[name] for name in vars(own) if name.startswith("_lua_")}
    return own._lua_runtime


def install() -> None:
    """Let all fake servers of this process run scripts so."""
    ScriptingCommandsMixin._get_server_runtime = runtime_of  # type: ignore[assignment]
