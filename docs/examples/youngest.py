"""Evict the youngest tasks of users who hold more than an equal share, for jobs of higher precedence."""

from dataclasses import dataclass

import numpy as np
import omega


@dataclass(frozen=True)
class YoungestOverShare(omega.Preemption):
    """One task on each machine, in the room of tasks of lower precedence; `looks` machines are looked up at a time."""

    looks: int = 64

    reads = ()  # nothing of a job beyond what every policy sees
    by = "share of the user"  # what `omega scheduler status` says

    def suspects(self, work, snapshot, rng):
        """Machines that are up and of which it is not known what runs there."""
        if not work.job.precedence or work.gang:
            return None
        unknown = np.flatnonzero(snapshot.up & ~snapshot.residents.known(snapshot.number))
        return [int(machine) for machine in unknown[: self.looks]]

    def place(self, work, snapshot, placement, rng):
        """Claims with victims, on machines in order, as many as there are tasks."""
        users, claims = max(1, len(snapshot.usage.users())), []
        over = {user for user in snapshot.usage.users() if snapshot.usage.dominant_share(user=user) > 1 / users}
        for group, wanted in enumerate(work.left):
            left = wanted
            for machine in np.flatnonzero(snapshot.up & snapshot.residents.known(snapshot.number)).tolist():
                victims = self._victims(snapshot, machine, work.need(group), over, work.job.precedence)
                if left and victims and machine not in {claim.machine for claim in claims}:
                    snapshot.take(machine, work.need(group), 1)
                    claims.append(
                        omega.Claim(machine, group, 1, seen=int(snapshot.number[machine]), evict=tuple(victims))
                    )
                    left -= 1
        return claims

    def _victims(self, snapshot, machine, need, over, precedence):
        """(placement, tasks) that free what is lacking, the youngest first; none when that is not enough."""
        lacking = [amount - int(room[machine]) for amount, room in zip(need, snapshot.room)]
        victims = []
        for each in sorted(snapshot.residents.on(machine), key=lambda each: -each.placement):
            if each.user not in over or each.precedence >= precedence or each.together:
                continue
            useful = [-(-lack // amount) for lack, amount in zip(lacking, each.need) if lack > 0 and amount]
            count = min(each.tasks, max(useful, default=0))
            if count > 0:
                victims.append((each.placement, count))
                lacking = [lack - amount * count for lack, amount in zip(lacking, each.need)]
        return victims if all(lack <= 0 for lack in lacking) else []


fair = omega.Scheduler("fair", preemption=YoungestOverShare())
