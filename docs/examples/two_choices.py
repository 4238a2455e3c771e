"""The better of two random machines (Mitzenmacher 2001), among those that have the data if any of them has room."""

from dataclasses import dataclass

import omega


def data_of(work, group):
    """The names of the machines that have the data of a group: the field ``locality`` of the job file."""
    said = work.job.spec.get("groups", [])
    return set(said[group].get("locality", {}).get("machines", [])) if group < len(said) else set()


@dataclass(frozen=True)
class TwoChoices(omega.Placement):
    """Each task goes to the machine with more of its first resource free, of two drawn at random."""

    reads = ("locality",)  # jobs that differ there are not alike
    reads_attributes = True  # names of machines are to be known, whatever a job demands

    def place(self, work, snapshot, rng):
        """Task by task."""
        claims, mark = [], snapshot.mark()
        for group, left in enumerate(work.left):
            need, near = work.need(group), data_of(work, group)
            for _ in range(left):
                holding = snapshot.holding(need)
                if not holding:
                    break
                local = [machine for machine in holding if snapshot.attributes.name(machine) in near] if near else []
                pair = [rng.choice(local or holding) for _ in range(2)]
                machine = max(pair, key=lambda each: snapshot.free[0][each])
                snapshot.take(machine, need, 1)
                claims.append(omega.Claim(machine, group, 1, seen=int(snapshot.number[machine])))
        if work.gang and len(claims) < work.remaining:
            snapshot.undo(mark)
            return []
        return claims


two = omega.Scheduler("two", placement=TwoChoices())
