"""Tokens: random texts that name a user and a role. Only their hashes are stored, a line each in a file."""

import os
import re
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from omega.cellstate.errors import BadInput
from omega.cellstate.plain_text import escaped
from omega.web.access.roles import ROLES, Role, Visitor

PREFIX = "sha256:"
BY_PROXY = "-"
"""In place of a hash: the line gives a role to a user whom a trusted proxy names."""
USER = re.compile(r"[\w.@+-]{1,128}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
MOST_TOKEN, MOST_FILE = 512, 4 * 1024 * 1024
"""Letters of a token; bytes of a file, about 30,000 lines."""


def new_token() -> str:
    """Return a random token of 256 bits. It needs no slow hash: nobody can try all."""
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """Return the hash of a token, as a file of tokens has it."""
    return PREFIX + sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def token_line(token: str, user: str, role: Role) -> str:
    """Return the line of a file of tokens for a token. Raises BadInput."""
    return f"{digest(token)} {checked_user(user)} {role}"


def checked_user(user: str) -> str:
    """Return the name of a user. Raises BadInput when it has other characters than names of users have."""
    if USER.fullmatch(user):
        return user
    raise BadInput(f"user {escaped(user)[:80]!r}: use 1 to 128 letters, digits, . _ @ + -")


def _parse(line: str) -> tuple[str, Visitor]:
    """Return the hash and visitor of a line, ``user:NAME`` instead of the hash for a user of a proxy."""
    words = line.split()
    if len(words) != 3:
        raise BadInput("want HASH USER ROLE; omega token makes such a line")
    known, user, role = words[0], checked_user(words[1]), next((each for each in ROLES if each == words[2]), None)
    if role is None:
        raise BadInput(f"role {escaped(words[2])[:40]!r} is unknown; want one of {', '.join(ROLES)}")
    if known == BY_PROXY:
        return f"user:{user}", Visitor(user, role)
    if not _HASH.fullmatch(known):
        raise BadInput("want sha256: and 64 hexadecimal digits, or - for a user of a trusted proxy")
    return known, Visitor(user, role)


def read(path: Path) -> tuple[dict[str, Visitor], list[str]]:
    """Return the visitors of a file by hash or ``user:NAME``, and what is wrong with it, a text for each such line.

    Lines that are wrong are left out, so that a mistake neither keeps a removed token valid nor stops the others. A
    token or user with several lines has none of them. Raises BadInput when the file cannot be read at all, and OSError.
    """
    with path.open("rb") as file:
        facts = os.fstat(file.fileno())
        if stat.S_IMODE(facts.st_mode) & 0o022:
            raise BadInput(f"tokens file {path}: others can write it; run chmod go-w {path}")
        if facts.st_uid not in (0, os.geteuid()):
            raise BadInput(f"tokens file {path}: belongs to user {facts.st_uid}, not to you ({os.geteuid()})")
        data = file.read(MOST_FILE + 1)
    if len(data) > MOST_FILE:
        raise BadInput(f"tokens file {path}: larger than {MOST_FILE >> 20} MiB; remove lines of tokens")
    found, wrong, twice = dict[str, Visitor](), list[str](), set[str]()
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        text = line.partition("#")[0].strip()
        try:
            known, visitor = _parse(text) if text else ("", None)
        except BadInput as error:
            wrong.append(f"tokens file {path}, line {number}: {error}")
            continue
        if known in found and found[known] != visitor:
            wrong.append(f"tokens file {path}, line {number}: a token or user has two meanings; keep one line")
            twice.add(known)
        if visitor is not None:
            found[known] = visitor
    return {known: visitor for known, visitor in found.items() if known not in twice}, wrong


@dataclass(slots=True)
class Tokens:
    """The tokens that are valid now: the start token, and those of a file, which is read again when it changed.

    While the file cannot be read, its tokens are not valid. `warn` gets each problem once.
    """

    file: Path | None = None
    start: Mapping[str, Visitor] = field(default_factory=dict)
    warn: Callable[[str], None] = lambda _: None
    _found: dict[str, Visitor] = field(default_factory=dict)
    _seen: object = None
    _told: tuple[str, ...] = ()

    def visitor(self, known: str) -> Visitor | None:
        """Return the visitor of a hash or of ``user:NAME``, None when it has none."""
        self._refresh()
        return self._found.get(known) or self.start.get(known)

    def _refresh(self) -> None:
        if self.file is None:
            return
        try:
            facts = self.file.stat()
            seen: object = (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino)
            if seen == self._seen:
                return
            found, wrong = read(self.file)
        except BadInput as error:
            found, wrong = {}, [str(error)]
        except OSError as error:
            seen, found = None, {}
            wrong = [f"tokens file {self.file}: {(error.strerror or str(error)).lower()}; its tokens are not valid"]
        self._seen, self._found = seen, found
        for each in wrong if tuple(wrong) != self._told else ():
            self.warn(each)
        self._told = tuple(wrong)


def append_line(path: Path, line: str) -> None:
    """Append a line to a file of tokens, which is created readable by its owner only. Raises OSError."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        ends = not size or os.pread(handle, 1, size - 1) == b"\n"
        file.write(f"{'' if ends else chr(10)}{line}\n".encode())


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, in place of another one. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None  # a full disk names no file
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
