"""Errors of code that other people wrote (policies, runners, hooks), in one line with their place."""

from sysconfig import get_paths
from traceback import walk_tb

RAISED = (Exception, SystemExit)
"""Errors that concern one job only; a policy may call `sys.exit`."""
MOST_TEXT = 300
"""Maximum length of an error's text in characters."""


def said_at(error: BaseException) -> str:
    """Return an error in one line with the innermost place outside of the installed packages: ``mine.py:14: …``."""
    foreign = tuple(path for name, path in get_paths().items() if name in ("stdlib", "purelib", "platlib"))
    places = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)][1:]
    own = [f"{file}:{line}: " for file, line in places if not file.startswith((*foreign, "<frozen"))]
    return f"{own[-1] if own else ''}{said(error)}"


def said(error: BaseException) -> str:
    """Return an error in one line: its type and text."""
    text = str(error).partition("\n")[0][:MOST_TEXT]
    return f"{type(error).__name__}{': ' if text else ''}{text}"
