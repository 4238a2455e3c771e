"""Output of tasks as text that a terminal may receive: without escape sequences, each as a whole."""

import codecs
import re

from omega.cellstate.plain_text import cleaned

MOST_HELD = 4_096
"""Maximum length of the beginning of a sequence that waits for its end; a longer one is no sequence."""
_TEXT = r"[^\x00-\x1f\x7f-\x9f]*"
_PARAMETERS, _MIDDLE = "[0-?]*", "[ -/]*"
_SEQUENCE = re.compile(
    rf"(?:\x1b\[|\x9b){_PARAMETERS}{_MIDDLE}[@-~]"  # CSI: colours, cursor
    rf"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]){_TEXT}(?:\x07|\x1b\\|\x9c)?"  # titles, links; a line end ends them
    rf"|\x1b{_MIDDLE}[0-~]"
)
_BEGUN = re.compile(
    rf"(?:\x1b(?:\[{_PARAMETERS}{_MIDDLE}|[\]PX^_]{_TEXT}\x1b?|{_MIDDLE})|\x9b{_PARAMETERS}{_MIDDLE}"
    rf"|[\x90\x98\x9d-\x9f]{_TEXT}\x1b?|\r+)\Z"
)
_LINE_END = re.compile(r"\r+\n?")


class TerminalText:
    """Turns the pieces of one stream of bytes into text, line ends and tabs.

    A carriage return begins a new line, so that a progress bar does not overwrite other text. A sequence may be divided
    between pieces (ECMA-48).
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def add(self, piece: bytes) -> str:
        """Return what a piece adds to the text."""
        text = self._held + self._decoder.decode(piece)
        begun = _BEGUN.search(text, max(0, len(text) - MOST_HELD))
        self._held = text[begun.start() :] if begun else ""
        text = _LINE_END.sub("\n", text[: len(text) - len(self._held)])  # first: a sequence may stand between two
        return cleaned(_SEQUENCE.sub("", text), "\n\t")
