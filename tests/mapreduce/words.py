"""Text to count words in, the commands that count them, and what one process alone counts."""

import sys
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from random import Random

VOCABULARY = 5_000
LETTERS = "abcdefghijklmnopqrstuvwxyzäßж"
Command = list[str]


def script(text: str, *words: str) -> Command:
    """A command that runs a few lines of Python; quick to start."""
    return [sys.executable, "-IS", "-c", text, *words]


EACH = script("import sys\nfor l in sys.stdin.buffer:\n for w in l.split(): sys.stdout.buffer.write(w+b'\\t1\\n')")
"""A mapper that says every word."""
COUNTED = script(
    "import sys\nfrom collections import Counter\nc=Counter()\n"
    "for l in sys.stdin.buffer: c.update(l.split())\n"
    "for w,n in c.items(): sys.stdout.buffer.write(b'%b\\t%d\\n'%(w,n))"
)
"""A mapper that counts the words of its shard."""
ADD = script(
    "import sys\nfrom itertools import groupby\n"
    "for k,g in groupby((l.rstrip(b'\\n').partition(b'\\t') for l in sys.stdin.buffer),lambda p:p[0]):\n"
    " sys.stdout.buffer.write(b'%b\\t%d\\n'%(k,sum(int(p[2]) for p in g)))"
)
"""A reducer that adds up."""


def write_text(path: Path, size: int, seed: int = 1) -> None:
    """Write at least so many bytes of lines of words; the k-th word is about 1/k as frequent as the first (Zipf)."""
    rng = Random(f"{seed}/text")
    words = ["".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 9))) for _ in range(VOCABULARY)]
    weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
    # A block is written several times over, each time turned: making words is slow.
    block = [" ".join(rng.choices(words, cum_weights=weights, k=rng.randint(0, 24))) for _ in range(8_000)]
    written = 0
    with path.open("wb") as file:
        while written < size:
            turn = rng.randrange(len(block))
            for line in (*block[turn:], *block[:turn]):
                written += file.write(line.encode() + b"\n")
                if written >= size:
                    break


def counted(paths: Sequence[Path]) -> Counter[bytes]:
    """The words of files as one process counts them."""
    words: Counter[bytes] = Counter()
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                words.update(line.split())
    return words


def answer(output: Path) -> Counter[bytes]:
    """The counts a job left; each word stands in one part, once."""
    words: Counter[bytes] = Counter()
    for part in sorted(output.iterdir()):
        assert part.name.startswith("part-"), f"{part} is left over"
        for line in part.read_bytes().splitlines():
            word, _, count = line.partition(b"\t")
            assert word not in words
            words[word] = int(count)
    return words
