"""The contract of sizing policies."""

from hypothesis import given, strategies as st

from omega.schedulers.policies import Sizing
from omega.schedulers.sizing.model import Phase, Profile, Totals
from omega.testing.scenes import for_all

phases = st.builds(Phase, st.integers(0, 60), st.one_of(st.none(), st.floats(0.125, 64)))
needs = st.tuples(st.integers(1, 4), st.integers(0, 4))
profiles = st.builds(Profile, st.integers(1, 70), st.tuples(phases, phases), needs, st.integers(0, 70))
cells = st.tuples(st.integers(0, 400), st.integers(0, 400)).flatmap(
    lambda capacity: st.builds(Totals, st.just(capacity), st.tuples(*(st.integers(0, most) for most in capacity)))
)


class SizingContract:
    """Inherit and set `policy`."""

    policy: Sizing

    @for_all
    @given(profile=profiles, totals=cells)
    def test_never_fewer_than_asked_for_while_they_are_of_use(self, profile: Profile, totals: Totals) -> None:
        """The job waits for these workers: fewer would take longer than the user's request."""
        useful = profile.useful()
        size = self.policy.size(profile, totals)
        assert size >= 1
        assert size >= (profile.asked if useful is None else min(profile.asked, useful))

    @for_all
    @given(profile=profiles, totals=cells)
    def test_the_same_question_has_the_same_answer(self, profile: Profile, totals: Totals) -> None:
        """The answer is deterministic: no randomness, no clock, no state."""
        assert self.policy.size(profile, totals) == self.policy.size(profile, totals)
