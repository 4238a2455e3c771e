"""Small numbers for texts that many records have in common."""

ABSENT = -1


class Codes:
    """Texts, and a number for each."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}

    def of(self, text: str) -> int:
        """Return the number of a text, a new one for a new text."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return code

    def known(self, text: str) -> int:
        """Return the number of a text, `ABSENT` for one that has none."""
        return self._codes.get(text, ABSENT)
