"""How often a job is tried that never sleeps: the rule of systems that do not wait for room to be freed."""

from dataclasses import dataclass

from schedulers.work import Work


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A job that is not placed whole is tried again `seconds` after its attempt, whatever kept it from it.

    After so many `attempts` it is abandoned; after so many `fruitless` ones (None: no such limit) when
    none of its tasks was ever placed.
    """

    seconds: float = 0.0
    attempts: int = 1_000
    fruitless: int | None = None

    def is_over(self, work: Work) -> bool:
        """Whether a job that is still not placed whole is to be given up."""
        if work.attempts >= self.attempts:
            return True
        return self.fruitless is not None and not work.placed and work.attempts >= self.fruitless
