"""Options with several values after one name: ``--cluster A B C``."""

from collections.abc import Sequence
from typing import Any

import click


class Several(click.Command):
    """A command with options, named in `several`, that take all words up to the next option."""

    def __init__(self, *arguments: Any, several: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.several = frozenset(several)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option's name before every value after the first, as click requires."""
        spread: list[str] = []
        last, values = "", 0
        for i, word in enumerate(args):
            if word == "--":
                spread += args[i:]
                break
            if word.startswith("-"):
                last, values = word, 0
            elif last in self.several:
                values += 1
                if values > 1:
                    spread.append(last)
            spread.append(word)
        return super().parse_args(ctx, spread)
