"""Retries of jobs that are never blocked: the rule of systems that do not requeue on freed room."""

from dataclasses import dataclass

from omega.schedulers.work import Work


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retry a job that is not completely placed `seconds` after its attempt, for any reason.

    It is abandoned after `attempts` attempts, or after `fruitless` ones (None: no such limit) when none of its tasks
    was ever placed.
    """

    seconds: float = 0.0
    attempts: int = 1_000
    fruitless: int | None = None

    def is_over(self, work: Work) -> bool:
        """Return whether a job that is not completely placed is given up."""
        if work.attempts >= self.attempts:
            return True
        return self.fruitless is not None and not work.placed and work.attempts >= self.fruitless
