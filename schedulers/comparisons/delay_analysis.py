"""The locality that delay scheduling reaches, and the skips that a wanted one needs (Zaharia et al. 2010, section 3.2).

Each offered slot is on a machine drawn at random, as in the paper: slots become free independently of one another.
"""

from math import ceil, log

import omega


def predicted_locality(share: float, skips: int) -> float:
    """Return the probability that a job gets a local slot within some offers; `share` of the machines have its data.

    1 − (1 − p)^D.
    """
    _check("share is 0 to 1, skips at least 0", holds=0 <= share <= 1 and skips >= 0)
    return float(1 - (1 - share) ** skips)


def job_locality(tasks: int, machines: int, replicas: int, *, skips: int) -> float:
    """Return the expected share of local tasks of a job whose tasks have `replicas` each on machines of their own.

    With K tasks left, a machine has data of one of them with the probability 1 − (1 − R/M)^K.
    """
    _check_sizes(tasks, machines, replicas)
    without = 1 - min(1.0, replicas / machines)
    return sum(predicted_locality(1 - without**left, skips) for left in range(1, tasks + 1)) / tasks


def skips_needed(locality: float, tasks: int, machines: int, replicas: int) -> int:
    """Return the smallest D for a locality (0 to 1, exclusive): D ≥ −(M/R) ln((1 − λ)N / (1 + (1 − λ)N))."""
    _check("locality is more than 0 and less than 1", holds=0 < locality < 1)
    _check_sizes(tasks, machines, replicas)
    missed = (1 - locality) * tasks
    return ceil(-(machines / replicas) * log(missed / (1 + missed)))


def wait_share(skips: int, machines: int, slots: int) -> float:
    """Return the mean time of so many offers as a share of a mean task, with `slots` busy slots on each machine."""
    _check("machines and slots are at least 1", holds=machines > 0 and slots > 0)
    return skips / (machines * slots)


def _check_sizes(tasks: int, machines: int, replicas: int) -> None:
    _check("tasks, machines and replicas are at least 1", holds=tasks > 0 and machines > 0 and replicas > 0)
    _check("replicas are at most as many as machines", holds=replicas <= machines)


def _check(rule: str, *, holds: bool) -> None:
    if not holds:
        raise omega.BadInput(f"not allowed: {rule}")
