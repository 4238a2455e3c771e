"""Patterns of the files that tasks write their output to: ``out/{index}.txt``, below the job's directory."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.plain_text import check_text
from omega.cellstate.resources import shown

FIELDS = {"output": "stdout", "error": "stderr"}
"""The streams of a task by the fields of a task group that have the patterns of their files."""
WORDS = ("index", "attempt", "job", "id", "group")
"""Words that a pattern may have in braces."""
MOST_NAME = 255
"""Bytes of one name in a path on Linux (NAME_MAX)."""


def read_pattern(text: str) -> str:
    """Return a pattern. Raises BadInput for one that is no relative path, or has unknown words in braces."""
    example = "write for example out/{index}.txt"
    check_text(text, "pattern")
    if not text or text.startswith("/") or text.endswith("/"):
        raise BadInput(f"{shown(text)} is not a file below the job's directory; {example}")
    parts = text.split("/")
    if ".." in parts or "." in parts or "" in parts:
        raise BadInput(f"{shown(text)} is not a plain path: it has '..', '.' or '//'; {example}")
    if any(len(part.encode()) > MOST_NAME for part in parts):
        raise BadInput(f"{shown(text)} has a name of more than {MOST_NAME} bytes; {example}")
    for word in _words(text):
        if word not in WORDS:
            raise BadInput(f"{{{word}}} is not known; a pattern may have {', '.join(f'{{{each}}}' for each in WORDS)}")
    return text


def _words(text: str) -> list[str]:
    rest = re.sub(r"\{([^{}]*)\}", "", text)
    if "{" in rest or "}" in rest:
        raise BadInput(f"{shown(text)} has a brace alone; write words in braces, such as {{index}}")
    return re.findall(r"\{([^{}]*)\}", text)


def check_distinct(groups: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
    """Raise BadInput where several tasks of a job would write to one file.

    `groups` has the number of tasks of each group, and its fields.
    """
    taken: dict[str, int] = {}
    for number, (count, spec) in enumerate(groups):
        for field in FIELDS:
            pattern = str(spec.get(field) or "")
            words = set(_words(pattern))
            if not pattern or "attempt" in words:  # no file is used twice
                continue
            if count > 1 and "index" not in words:
                raise BadInput(f"{field}: {shown(pattern)} is one file of {count} tasks; write {{index}} into it")
            if "group" not in words and taken.setdefault(pattern, number) != number:
                raise BadInput(
                    f"{field}: {shown(pattern)} is also that of group {taken[pattern]}; write {{group}} into it"
                )


def path_of(pattern: str, values: Mapping[str, str]) -> str:
    """Return a pattern with values for its words, ``{attempt}`` excepted; a / in a value becomes _."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]).replace("/", "_"), pattern)
