"""Weighted dominant resource fairness among users (Ghodsi et al., NSDI 2011)."""

from dataclasses import dataclass, field

import omega


@dataclass
class WeightedDrf(omega.Ordering):
    """The next tasks are for the user whose dominant share ÷ weight is smallest."""

    weights: dict[str, float] = field(default_factory=dict)
    _usage: omega.Usage | None = field(default=None, repr=False)

    def observe(self, snapshot, now):
        """Keep what users hold; the scheduler's own claims and choices are counted in it at once."""
        self._usage = snapshot.usage

    def lane(self, work):
        """Jobs of one user have one rank."""
        return work.user

    def rank(self, user):
        """The dominant share of a user, for its weight."""
        return self._usage.dominant_share(user=user) / self.weights.get(user, 1.0)

    def most(self, work):
        """Place at most eight tasks of a job per attempt, or a whole gang: the next ones may be for another user."""
        return None if work.gang else 8


drf = omega.Scheduler("drf", ordering=WeightedDrf({"ada": 2.0}), jobs_per_call=8)
