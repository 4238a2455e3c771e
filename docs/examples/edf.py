"""Earliest deadline first (Liu and Layland, Journal of the ACM 1973), with the deadline as a field of jobs."""

from dataclasses import dataclass

import omega

DEADLINE = omega.JobField(
    "deadline", "duration", "time from submission until the job should have ended", default="1d", least="1s"
)


@dataclass(frozen=True)
class Edf(omega.Ordering):
    """The job with the earliest deadline first."""

    job_fields = (DEADLINE,)

    def key(self, work):
        return work.submitted + DEADLINE.of(work)


edf = omega.Scheduler("edf", ordering=Edf())
