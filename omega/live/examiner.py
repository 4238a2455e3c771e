"""A process that holds sources of one file to their contracts: ``python -m omega.live.examiner FILE``.

A line on stdin is a JSON document, a line on stdout its answer: {"source": …} is the file itself, its answer
{"examined": […]}; {"source": …, "not_greedy": […]} is a mutant, its answer {"failure": …}, null when it survives. A
source that cannot be tested has the answer {"error": …}. What the file itself prints goes to stderr.
"""

import json
import os
import resource
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from hypothesis import Phase, settings

from omega.cellstate.errors import BadInput

MOST_BYTES = 8 << 30
"""Memory of the process: a mutant that loops may ask for more and more."""

settings.register_profile(
    "mutants",
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False,
)


def answer(path: Path, question: str) -> str:
    """Return the answer to a line."""
    from omega.testing import plugin  # noqa: PLC0415 - its settings are made of those of the profile

    asked = json.loads(question)
    try:
        if "not_greedy" not in asked:
            return json.dumps({"examined": [asdict(each) for each in plugin.examine(path, asked["source"])]})
        failure = plugin.first_failure(path, asked["source"], asked["not_greedy"])
    except BadInput as error:
        return json.dumps({"error": str(error)})
    return json.dumps({"failure": None if failure is None else f"{failure.test}: {failure.error}"})


def serve(path: Path, questions: TextIO, answers: TextIO) -> None:
    """Answer every line, until there are no more."""
    sys.path.insert(0, str(path.parent))
    settings.load_profile("mutants")
    for question in questions:
        answers.write(answer(path, question) + "\n")
        answers.flush()


if __name__ == "__main__":
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    serve(Path(sys.argv[1]).resolve(), sys.stdin, own)
