"""The words of facts with each amount a word of its own."""

from omega.cellstate.events import End, Event, Join, Limit, MachineEvent, Place


def old_words(event: Event) -> tuple[str, ...]:
    """Return the words of a fact."""
    at = {Place: 6, End: 7, Join: 4, MachineEvent: 5, Limit: 5}.get(type(event))
    return tuple(event) if at is None else (*event[:at], *event[at].split(","), *event[at + 1 :])
