"""``omega down``: end what ``omega up`` started."""

import click

from cli import render
from cli.app import App


@click.command("down")
@click.pass_obj
def command(app: App) -> None:
    """End the processes that omega up started on this computer, with their tasks; the cell's state stays in the store.

    It finds them also when omega up was killed, by its record in the state directory. Without --cell it ends those
    of all cells. The store is not needed and not stopped (omega store stop).
    """
    from omega.embedded_places import state_directory
    from omega.live.crew_record import end_all, records

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
        how = "killed: it did not leave" if each["killed"] else "ended"
        render.line(f"{each['member']} (pid {each['pid']}) of cell {each['cell']}: {how}")
    if not ended:
        render.line("nothing runs here that omega up started")
