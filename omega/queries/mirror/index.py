"""The index of a reading: which state of a cell a document shows."""

from typing import NamedTuple, Self

from omega.cellstate.errors import BadInput


class Index(NamedTuple):
    """A version of a cell with the tag of its history, and `beat`: the number of changes that raise no version.

    Heartbeats of schedulers and the state of the server are such changes. Indexes of one tag are ordered; of another
    tag nothing is known, unless the mirror has it (`CellMirror.has`).
    """

    version: int = 0
    tag: str = ""
    beat: int = 0

    def __str__(self) -> str:
        return f"{self.version}-{self.tag}" + (f".{self.beat}" if self.beat else "")

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what `str` wrote; a version alone has no tag. Raises BadInput."""
        version, _, rest = text.strip('"').partition("-")
        tag, _, beat = rest.rpartition(".") if "." in rest else (rest, "", "0")
        whole = version.isdecimal() and beat.isdecimal() and text.isascii()
        if not whole or len(text) > MOST_LETTERS:
            raise BadInput(f"index {text[:MOST_LETTERS]!r}: is none; write one as an answer has it")
        return cls(int(version), tag, int(beat))

    def passes(self, other: "Index") -> bool:
        """Return whether this index is later than another one."""
        return (self.version, self.beat) > (other.version, other.beat)


MOST_LETTERS = 80
