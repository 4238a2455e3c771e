"""``omega mapreduce worker``."""

import os
import time
from collections.abc import Mapping

import click

from cellstate.errors import BadInput, Refused
from cli import render, words
from cli.app import App


@click.command()
@click.option("--job", "job_id", envvar="OMEGA_JOB", required=True, metavar="ID", help="Its job.")
@click.option("--machine", envvar="OMEGA_MACHINE", required=True, metavar="NAME", help="Where it is placed.")
@click.option("--placement", envvar="OMEGA_PLACEMENT", required=True, type=int, metavar="N", help="Its placement's id.")
@click.option("--group", envvar="OMEGA_GROUP", default="workers", metavar="NAME", help="Its task group.")
@click.option("--task", envvar="OMEGA_TASK", required=True, type=int, metavar="N", help="Its number among the tasks.")
@click.pass_obj
def command(app: App, job_id: str, machine: str, placement: int, group: str, task: int) -> None:
    """Work on the shards of a MapReduce job until none is left.

    An agent runs this for each task of such a job and says all of this in the environment.
    """
    from omega.live.secrets import take_store

    app.store = take_store(os.environ) or app.store
    surroundings = _of_commands(os.environ)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else numpy sets room for each core aside, beyond our memory
    from cellstate.shards import Worker
    from omega.live.mapreduce import ShardWorker
    from omega.mapreduce.plan import Plan

    cell = app.open()
    job, index = cell.job(job_id), cell.machine_index(machine)
    if job is None or index is None:
        raise Refused(f"job {job_id}, machine {machine}: not in cell {cell.name}; an agent starts workers by itself")
    plan = Plan.read(job.spec)
    if plan is None:
        raise BadInput(f"job {job.name}: is no MapReduce job; submit one of kind mapreduce")
    worker = ShardWorker(
        cell, job.id, job.name, plan, Worker(index, placement, task), surroundings, time.monotonic, time.sleep,
        render.warning, surplus=group == "surplus",
    )  # fmt: skip
    done = worker.run()
    if app.as_json:
        render.document({"cell": cell.name, "job": job.id, "task": task, "shards": done})
    else:
        render.line(f"{words.count(done, 'shard')} done")


def _of_commands(environment: Mapping[str, str]) -> dict[str, str]:
    """What mappers and reducers see: as other commands, they are not told where the store is, nor its password."""
    return {name: value for name, value in environment.items() if name not in ("OMEGA_STORE", "OMEGA_CELL")}
