"""Pages that can be read: the words of a page, and its long sentences."""

import re
from collections.abc import Iterator

from tests.architecture.sources import Source

WORDS, OF_DECISIONS = 2_500, 1_200
MORE_WORDS = {"docs/semantics.md": 4_500, "docs/reproduction.md": 4_500}
LONG, MOST_LONG = 30, 2
"""Words of a long sentence, and how many of them a page may have."""
PAGE = re.compile(r"(docs/(decisions/)?)?[^/]+\.md")
ITEM = re.compile(r"\s*([*+-]|\d+\.)\s")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
CODE = re.compile(r"`[^`]+`")
END = re.compile(r"(?<=[.!?])[)*\"'_]*\s+")


def long_pages(source: Source) -> Iterator[str]:
    """A page has no more words than can be read at once, code and tables included."""
    if not PAGE.fullmatch(source.path):
        return
    words = sum(len(line.split()) for line in source.lines)
    most = OF_DECISIONS if source.path.startswith("docs/decisions/") else MORE_WORDS.get(source.path, WORDS)
    if words > most:
        yield f"{source.path}:1: {words} words, more than {most}; divide the page"


def long_sentences(source: Source) -> Iterator[str]:
    """A page has at most two long sentences, those of lists and of cells of tables included."""
    if not PAGE.fullmatch(source.path):
        return
    sentences = ((line, text) for line, unit in units(source) for text in END.split(unit))
    found = [str(line) for line, text in sentences if len(re.findall(r"\S*\w\S*", text)) >= LONG]
    if len(found) > MOST_LONG:
        lines = ", ".join(found)
        yield f"{source.path}:{found[0]}: {len(found)} sentences of {LONG} words or more (lines {lines}); divide them"


def units(source: Source) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each paragraph, list item and line of a cell; a quotation of code is one word."""
    start, lines, fenced = 1, list[str](), False
    for number, line in enumerate([*source.lines, ""], 1):
        fence = line.lstrip().startswith("```")
        alone = fenced or fence or not line.strip() or line.startswith(("#", "|"))
        if lines and (alone or ITEM.match(line)):
            yield start, CODE.sub("code", LINK.sub(r"\1", " ".join(lines)))
            lines = []
        if line.startswith("|") and not fenced:
            cells = CODE.sub("code", LINK.sub(r"\1", line)).split("|")
            yield from ((number, text) for cell in cells for text in cell.split("<br>"))
        elif not alone:
            start = start if lines else number
            lines.append(line)
        fenced ^= fence
