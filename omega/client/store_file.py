"""The file that holds a store's URL, which keeps its password out of argv and the environment."""

import os
import stat

from omega.cellstate.errors import BadInput

MOST_BYTES = 4_096


def read(path: str) -> str:
    """Return the URL in a file. Raises BadInput when others can read or replace the file, or it is not one line.

    A pipe is accepted: ``--store-file <(pass show omega)``. Errors never quote the contents.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(f"store file {path}: {(error.strerror or str(error)).lower()}") from None
    if stat.S_ISDIR(os.fstat(handle).st_mode):
        os.close(handle)
        raise BadInput(f"store file {path}: is a directory; give a file that holds the URL of a store")
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if stat.S_IMODE(status.st_mode) & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):03o}"
            raise BadInput(f"store file {path}: is open to other users (mode {mode}); run chmod 600 {path}")
        if status.st_uid not in (0, os.geteuid()):
            raise BadInput(f"store file {path}: belongs to user {status.st_uid}, not to you ({os.geteuid()})")
        try:
            text = file.read(MOST_BYTES + 1).decode().strip()
        except (OSError, UnicodeDecodeError):
            text = ""
    if not text or len(text.split()) != 1:
        raise BadInput(f"store file {path}: must hold one line, the URL of a store")
    return text
