"""Values that many jobs share, each with a number and the number of jobs that have it."""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class Counted(Generic[V]):
    """Values by number; one that no job has any more leaves its number to another."""

    def __init__(self) -> None:
        self._values: list[V | None] = []
        self._keys: list[Hashable] = []
        self._jobs: list[int] = []
        self._numbers: dict[Hashable, int] = {}
        self._spare: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def enter(self, key: Hashable, make: Callable[[], V]) -> int:
        """Count a job with the value of a key, which `make` makes when it is new; return its number."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._spare.pop() if self._spare else len(self._values)
            if number == len(self._values):
                self._values.append(None)
                self._keys.append(None)
                self._jobs.append(0)
            self._values[number], self._keys[number] = make(), key
        self._jobs[number] += 1
        return number

    def leave(self, number: int) -> None:
        """Count a job with this value no more."""
        self._jobs[number] -= 1
        if not self._jobs[number]:
            del self._numbers[self._keys[number]]
            self._values[number] = self._keys[number] = None
            self._spare.append(number)

    def jobs(self, number: int) -> int:
        """Return how many jobs have a value."""
        return self._jobs[number]

    def value(self, number: int) -> V:
        """Return a value. Raises KeyError for a number without one."""
        value = self._values[number]
        if value is None:
            raise KeyError(number)
        return value

    def items(self) -> Iterator[tuple[int, V]]:
        """Yield numbers and values."""
        return ((number, value) for number, value in enumerate(self._values) if value is not None)
