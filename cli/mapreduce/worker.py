"""``omega mapreduce worker``."""

import os
import signal
import time
from contextlib import suppress
from typing import NoReturn

import click

from omega.cellstate.errors import BadInput, OmegaError, Refused
from omega.cli import render
from omega.cli.app import App
from omega.live.agent.task_start import DECIDED
from omega.queries import units


class Terminated(BaseException):
    """The agent asked the worker to end."""


def _terminate(_: int, __: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may ask again
    raise Terminated


@click.command()
@click.option("--job", "job_id", envvar="OMEGA_JOB", required=True, metavar="ID", help="Id of the job.")
@click.option("--machine", envvar="OMEGA_MACHINE", required=True, metavar="NAME", help="Machine of the placement.")
@click.option(
    "--placement", envvar="OMEGA_PLACEMENT", required=True, type=int, metavar="N", help="Id of the placement."
)
@click.option("--group", envvar="OMEGA_GROUP", default="workers", metavar="NAME", help="Task group.")
@click.option(
    "--task", envvar="OMEGA_TASK", required=True, type=int, metavar="N", help="Number of the task in its group."
)
@click.pass_obj
def command(app: App, job_id: str, machine: str, placement: int, group: str, task: int) -> None:
    """Process the shards of a MapReduce job until none is left.

    An agent runs this command for each task of such a job and sets the options in the environment.
    """
    from omega.live.secrets import take_store, without_store

    app.store = take_store(os.environ) or app.store
    surroundings = {name: value for name, value in without_store(os.environ).items() if name != "OMEGA_CELL"}
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy otherwise reserves memory for every core
    from omega.cellstate.shards import Worker
    from omega.live.mapreduce import JobFailed, ShardWorker
    from omega.mapreduce.near import near_shards
    from omega.mapreduce.plan import MapReducePlan

    cell = app.open()
    job, index = cell.jobs.get(job_id), cell.machines.index_of(machine)
    if job is None or index is None:
        raise Refused(f"job {job_id}, machine {machine}: not in cell {cell.name}; agents start the workers of a job")
    plan = MapReducePlan.read(job.spec)
    if plan is None:
        raise BadInput(f"job {job.name}: is not a MapReduce job; submit one of kind mapreduce")
    worker = ShardWorker(
        cell,
        job.id,
        job.name,
        plan,
        Worker(index, placement, task),
        surroundings,
        time.monotonic,
        time.sleep,
        render.warning,
        near_shards(cell, plan, index),
        surplus=group == "surplus",
    )
    signal.signal(signal.SIGTERM, _terminate)
    try:
        done = worker.run()
    except JobFailed as error:
        render.error(str(error))
        click.get_current_context().exit(DECIDED)
    except Terminated:
        with suppress(OmegaError, OSError):  # the next job in this directory removes them
            worker.cell = app.open()  # the other connection may be within a reply
            worker.clear_if_over()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    if app.as_json:
        render.document({"cell": cell.name, "job": job.id, "task": task, "shards": done})
    else:
        render.line(f"{units.count(done, 'shard')} done")
