"""The ceiling of a commit: the very writes it makes, without reading or validating anything.

The writes are not guessed: while the product commits, MONITOR shows every command that its script
runs, and those that write are kept, byte for byte. So the ceiling stays honest however the script
changes. Only the number of a log entry is left to the server, because several clients write at once.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import hiredis
import redis

Command = tuple[bytes, ...]

UNCHECKED = """
local i, n = 1, #ARGV
while i <= n do
  local count = tonumber(ARGV[i])
  redis.call(unpack(ARGV, i + 1, i + count))
  i = i + count + 1
end
return redis.status_reply('OK')
"""
"""Writes given commands: for each a count of words, then the words."""

_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)")
_CONTROL = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}
_BY_SCRIPT = re.compile(rb"^\+?[0-9.]+ \[\d+ lua\] ")
_RECEIVE = 1 << 20
_pack: Callable[[Command], bytes] = cast("Any", hiredis.pack_command)  # its types know tuples of one word only


def words_of(line: bytes) -> Command:
    """The words of a command as MONITOR shows it."""
    return tuple(_unescaped(word) for word in _WORD.findall(line))


def _unescaped(word: bytes) -> bytes:
    if b"\\" not in word:
        return word

    def meant(found: "re.Match[bytes]") -> bytes:
        code = found[1]
        return bytes.fromhex(code[1:].decode()) if len(code) == 3 else _CONTROL.get(code, code)

    return _ESCAPE.sub(meant, word)


class Wire:
    """A plain connection to a store: sends bytes and counts replies without decoding them."""

    def __init__(self, client: "redis.Redis") -> None:
        """Connect (login, TLS and database as the client does)."""
        self._client = client  # kept alive: its end would close the connection
        connection: Any = client.connection_pool.get_connection()
        self._connection = connection
        self._socket = self._connection._sock  # noqa: SLF001 - no reply is to be decoded
        self._socket.settimeout(60.0)
        self._reader = hiredis.Reader()

    def send(self, data: bytes) -> None:
        """Send commands that `pack` made."""
        self._socket.sendall(data)

    def replies(self, count: int) -> list[object]:
        """Wait for so many replies."""
        found: list[object] = []
        while len(found) < count:
            reply = self._reader.gets()
            if reply is False:
                data = self._socket.recv(_RECEIVE)
                if not data:
                    raise ConnectionError("the store closed the connection")
                self._reader.feed(data)
                continue
            if isinstance(reply, hiredis.ReplyError):
                raise reply
            found.append(reply)
        return found

    def close(self) -> None:
        """Drop the connection."""
        self._connection.disconnect()


def pack(commands: Iterable[Command]) -> bytes:
    """Commands as they go over the wire, one after another."""
    return b"".join(_pack(command) for command in commands)


def unchecked_call(sha: bytes, commands: Sequence[Command]) -> list[bytes | int]:
    """The words of one call of the unchecked script that runs `commands`."""
    keys = sorted({command[1] for command in commands})
    words: list[bytes | int] = [b"EVALSHA", sha, len(keys), *keys]
    for command in commands:
        words += [len(command), *command]
    return words


class Recorder:
    """Shows which commands that write were run by scripts."""

    def __init__(self, client: "redis.Redis") -> None:
        """Begin to watch the store."""
        self._client, self._marks = client, 0
        self._wire = Wire(client)
        self._wire.send(pack([(b"MONITOR",)]))
        self._wire.replies(1)
        self._writes: dict[bytes, bool] = {}

    def record(self, action: Callable[[], object]) -> list[Command]:
        """Run `action` and return the writes that scripts made meanwhile."""
        action()
        self._marks += 1
        mark = f"mark-{self._marks}"
        self._client.echo(mark)
        found: list[Command] = []
        while True:
            (line,) = self._wire.replies(1)
            text = line if isinstance(line, bytes) else str(line).encode()
            if _BY_SCRIPT.match(text):
                words = words_of(text)
                if self._is_write(words[0].upper()):
                    found.append(words)
            elif mark.encode() in text:
                return found

    def _is_write(self, name: bytes) -> bool:
        if name not in self._writes:
            client: Any = self._client
            told = client.execute_command("COMMAND", "INFO", name.decode())
            flags = _flags(told)
            self._writes[name] = "write" in flags
        return self._writes[name]

    def close(self) -> None:
        """Stop watching."""
        self._wire.close()


def _flags(told: Any) -> set[str]:
    (about,) = told.values() if isinstance(told, dict) else told
    flags = about["flags"] if isinstance(about, dict) else about[2]
    return {flag.decode() if isinstance(flag, bytes) else str(flag) for flag in flags}


def without_log_number(command: Command) -> Command:
    """The command with the log's own number in place of the recorded one: `*` costs the server no more."""
    if command[0].upper() != b"XADD":
        return command
    at = next(i for i, word in enumerate(command) if i > 1 and re.fullmatch(rb"\d+-\d+", word))
    return (*command[:at], b"*", *command[at + 1 :])
