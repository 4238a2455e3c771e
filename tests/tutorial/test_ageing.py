"""The scheduler with ageing in docs/examples is the batch preset but for its ordering."""

from omega.schedulers.composition import compose, parameters
from omega.schedulers.ordering.without_pools import PrecedenceFifo
from omega.schedulers.presets import batch
from tests.tutorial.page import DOCS


def test_the_scheduler_with_ageing_is_the_batch_preset_but_for_its_ordering() -> None:
    aged, preset = compose("aged.toml", (DOCS / "examples" / "aged.toml").read_text(encoding="utf-8")), batch()
    assert aged.ordering == PrecedenceFifo(ageing=60.0)
    others = [each.name for each in parameters(preset) if each.name not in ("ordering", "preemption")]
    assert "jobs_per_call" in others
    assert {name: getattr(aged, name) for name in others} == {name: getattr(preset, name) for name in others}
    assert type(aged.preemption) is type(preset.preemption)
