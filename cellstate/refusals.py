"""Messages for refused changes of a job; the store and its twin return the same statuses."""

from omega.cellstate.errors import OmegaError, Overtaken, Refused
from omega.cellstate.model import MOST_CLAIMS, Job
from omega.cellstate.resources import LARGEST, MOST_TOGETHER


def refusal(cell: str, job_id: str, status: str, job: Job | None = None) -> OmegaError:
    """Return the error for the status of a script that changes a job: ``unknown``, or why `job` is unchanged."""
    if job is None:
        return Refused(f"job {job_id}: not in cell {cell}; see omega job list")
    if status == "moved":
        return Overtaken(
            f"job {job_id}: modified concurrently, its modify index is now {job.modified}; read it again and retry"
        )
    said = {
        "ended": "has ended; submit it again",
        "group": f"has {len(job.groups)} task groups, numbered from 0; see omega job status {job_id}",
        "few": "more tasks have ended than it shall have; ask for at least as many",
        "often": f"was updated too often ({len(job.groups)} task groups); submit it again",
        "lane": "keeps its user, its pool and its expected_duration; to change them, submit it again",
        "large": "would have more tasks, or would have had, or need more of a resource, than are counted exactly;"
        f" the most is {LARGEST} tasks and {MOST_TOGETHER} of a resource",
        "many": f"a gang of more than {MOST_CLAIMS} tasks; that is the most in one transaction",
    }
    return Refused(f"job {job_id}: {said[status]}")


def excess(cell: str, resource: str) -> OmegaError:
    """Return the error for machines with a sum of a resource beyond the exact range of sums."""
    return Refused(
        f"cell {cell}: its machines would have more than {MOST_TOGETHER} of {resource} together; count it in a larger "
        "unit"
    )


def busy(machine: str) -> Refused:
    """Return the error for a machine that cannot join under another executor yet."""
    return Refused(
        f"machine {machine}: tasks of its last executor are still on it; drain it first, or try again when they left"
    )


def pools_overtaken(cell: str, read: int, now: int) -> Overtaken:
    """Return the error for a change of pools based on an older version of them."""
    return Overtaken(
        f"cell {cell}: its pools were modified concurrently, their version is now {now}, not {read}; read them"
        " again and retry"
    )


def jobs_in_pool(cell: str, pool: str) -> Refused:
    """Return the error for a change that would leave live jobs in a pool that can hold none."""
    return Refused(
        f"pool {pool}: has live jobs, so it can neither be removed nor get pools below it; let them end or stop them:"
        f" omega job list --cell {cell}"
    )
