"""``omega down``: stop the processes that ``omega up`` started."""

import click

from omega.cli import render
from omega.cli.app import App


@click.command("down")
@click.pass_obj
def command(app: App) -> None:
    """Stop the processes that omega up started on this computer, and their tasks; the cell's state stays in the store.

    The processes are found by a record in the state directory, also after omega up was killed. Without --cell, the
    processes of all cells are stopped. The store keeps running (omega store stop stops it); it need not be reachable.
    """
    from omega.embedded.places import state_directory
    from omega.live.processes.record import end_all, records

    state = state_directory()
    ended = [
        {"cell": record.cell, "member": found.member, "pid": found.pid, "killed": killed}
        for record in records(state, app.cell_name)
        for found, killed in end_all(record, state)
    ]
    if app.as_json:
        render.document({"ended": ended})
        return
    for each in ended:
        how = "killed: it did not stop in time" if each["killed"] else "ended"
        render.line(f"{each['member']} (pid {each['pid']}) of cell {each['cell']}: {how}")
    if not ended:
        render.line("no processes of omega up are running")
