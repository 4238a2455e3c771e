"""Records that outlive the log: results of tasks, histories of jobs, hourly sums of use.

Housekeeping reads the next entries of the log and adds them to these records, in one call with the position that it
has then reached, so each entry counts once (docs/decisions/0043-one-digest-of-the-log.md).
"""
