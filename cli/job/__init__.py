"""``omega job``: submit, follow, see, change and stop jobs."""

from omega.cli.lazy import Lazy

command = Lazy(
    name="job",
    help="Submit, list, explain, change and stop jobs. A job is given by its id, the beginning of its id, or its name.",
    table={
        "submit": ("omega.cli.job.submit", "Submit the jobs of files, and follow them."),
        "run": ("omega.cli.job.run", "Submit one job from the command line, and follow it."),
        "plan": ("omega.cli.job.plan", "Show where the jobs of files would be placed; submit nothing."),
        "list": ("omega.cli.job.list", "List jobs with their states and reasons."),
        "status": ("omega.cli.job.status", "Show a job: its tasks, their machines, its history."),
        "tasks": ("omega.cli.job.tasks", "List the tasks of a job by index, with their results."),
        "why": ("omega.cli.job.why", "Explain why a job is pending, and what would help."),
        "logs": ("omega.cli.job.logs", "Print a task's output."),
        "wait": ("omega.cli.job.wait", "Wait for a job's end; the exit status reflects its result."),
        "hold": ("omega.cli.job.change:hold", "Hold jobs: no new placements; running tasks continue."),
        "release": ("omega.cli.job.change:release", "Let held jobs be placed again."),
        "resize": ("omega.cli.job.change:resize", "Change the number of tasks of a job."),
        "weight": ("omega.cli.job.change:weight", "Change the weight of a job among the jobs of its pool."),
        "update": ("omega.cli.job.update", "Update a running job from a file, task by task."),
        "history": ("omega.cli.job.history:history", "Show the versions of a job and their differences."),
        "revert": ("omega.cli.job.history:revert", "Update a job to one of its earlier versions."),
        "rerun": ("omega.cli.job.rerun", "Submit a job again, or some of its tasks."),
        "stop": ("omega.cli.job.change:stop", "Stop jobs: end running tasks, place no others."),
    },
)
