"""Delay scheduling around any placement (Zaharia et al., EuroSys 2010): wait for machines that have the data."""

from dataclasses import dataclass, field

import numpy as np
import omega
from two_choices import data_of


@dataclass(frozen=True)
class Delay(omega.Placement):
    """`inner` places a job, for its first `wait` seconds only on the machines that have its data."""

    wait: float = 5.0
    inner: omega.Placement = field(default_factory=omega.FirstFit)

    reads_attributes = True
    reads = ("locality",)

    def place(self, work, snapshot, rng):
        """The time is that of the snapshot, so the same question has the same answer."""
        near = {name for group in range(len(work.left)) for name in data_of(work, group)}
        since = work.notes.setdefault("delay", snapshot.now)
        if not near or snapshot.now >= since + self.wait:
            return self.inner.place(work, snapshot, rng)
        local = np.array([snapshot.attributes.name(machine) in near for machine in range(snapshot.size)], dtype=bool)
        claims = self.inner.place(work, snapshot.narrow(local), rng)
        if not claims:
            work.until = since + self.wait  # tried again then, though no room is freed
        return claims


patient = omega.Scheduler("patient", placement=Delay())
