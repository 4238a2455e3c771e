"""How an agent keeps the tasks of a group up: restarts after failures and liveness checks, with the defaults of a kind.

The defaults of liveness are those of Kubernetes' probes, those of a service's restarts Nomad's.
"""

HEALTH_INTERVAL_MS, HEALTH_TIMEOUT_MS, HEALTH_FAILURES = 10_000, 1_000, 3
"""Default period and timeout of a liveness command, and failures in a row after which a task is unhealthy."""
