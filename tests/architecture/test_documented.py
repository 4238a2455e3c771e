"""Everything public on the four floors is documented."""

from tests.architecture.documented import undocumented
from tests.architecture.sources import FLOORS, assert_kept, code


def test_everything_public_is_documented() -> None:
    assert_kept(undocumented, [source for source in code() if source.is_python and source.folder in FLOORS])
