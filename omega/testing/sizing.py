"""The contract of sizing policies."""

from hypothesis import given, strategies as st

from omega.schedulers.policies import Sizing
from omega.schedulers.sizing import Phase, Profile, Totals
from omega.testing.purity import fresh, watched
from omega.testing.scenes import for_all

ROOMY = Totals((1_000, 1_000), (0, 0))
"""The sums of a cell with room for all workers."""

phases = st.builds(Phase, st.integers(0, 60), st.one_of(st.none(), st.floats(0.125, 64)))
needs = st.tuples(st.integers(1, 4), st.integers(0, 4))
profiles = st.builds(Profile, st.integers(1, 70), st.tuples(phases, phases), needs, st.integers(0, 70))
cells = st.tuples(st.integers(0, 400), st.integers(0, 400)).flatmap(
    lambda capacity: st.builds(Totals, st.just(capacity), st.tuples(*(st.integers(0, most) for most in capacity)))
)


class SizingContract:
    """Inherit and set `policy`."""

    policy: Sizing

    def test_some_scene_exercises_it(self) -> None:
        """Jobs of different sizes get different numbers of workers."""
        sizes = {self.policy.size(Profile(asked, [Phase(60, 2.0)], (1, 1)), ROOMY) for asked in range(1, 60, 7)}
        assert len(sizes) > 1 or self.policy.size(Profile(1, [Phase(9, 2.0)], (1, 1)), ROOMY) not in sizes, (
            f"no scene exercised it: {self.policy} gives every job the same number of workers"
        )

    @for_all
    @given(profile=profiles, totals=cells)
    def test_never_fewer_than_asked_for_while_they_are_of_use(self, profile: Profile, totals: Totals) -> None:
        """The job waits for these workers: fewer would take longer than the user's request."""
        useful = profile.useful()
        with watched():
            size = self.policy.size(profile, totals)
        assert size >= 1
        assert size >= (profile.asked if useful is None else min(profile.asked, useful))
        assert size <= max(profile.asked, useful or 0), "more workers than are of use"

    @for_all
    @given(profile=profiles, totals=cells)
    def test_the_same_question_has_the_same_answer(self, profile: Profile, totals: Totals) -> None:
        """The answer is deterministic: no randomness, no clock, no state."""
        sizes = [each.size(profile, totals) for each in (self.policy, fresh(self.policy, "sizing"), self.policy)]
        assert sizes[0] == sizes[1] == sizes[2]
