"""A scheduler from TOML: policies with parameters, and complaints with file, line and field."""

from pathlib import Path

import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.transaction import Detection, Mode
from omega.schedulers.composition import compose, parameters, read
from omega.schedulers.constrained import Constrained
from omega.schedulers.ordering.without_pools import Fifo, PrecedenceFifo
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.placement.service import BestFit, ServicePlacement
from omega.schedulers.retrying import RetryPolicy
from omega.schedulers.scheduler import Scheduler

WHOLE = """\
# Cold things go together.
kind = "cold"
ordering = "fifo"
jobs_per_call = 4
backoff = 1
detection = "coarse"
mode = "gang"
retry_policy = {seconds = 1.5, fruitless = 3}
paths = {cold = [0.5, 0.25]}

[placement]
policy = "constrained"
careful = {policy = "service", fit = 0.5}
[ placement.inner ]  # on each machine
policy = "best-fit"
apart = 2
"""


def test_every_kind_of_field() -> None:
    found = compose("cold.toml", WHOLE)
    assert (found.kind, found.jobs_per_call, found.backoff) == ("cold", 4, 1.0)
    assert (found.detection, found.mode) == (Detection.COARSE, Mode.GANG)
    assert (found.retry_policy, found.paths) == (RetryPolicy(1.5, 1_000, 3), {"cold": (0.5, 0.25)})
    assert found.placement == Constrained(BestFit(apart=2), ServicePlacement(fit=0.5))


def test_what_is_left_out_is_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "cold.toml"
    path.write_text('kind = "cold"', encoding="utf-8")
    assert (read(path).ordering, read(path).placement) == (PrecedenceFifo(), FirstFit())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("apart = 2", 'apart = "x"', "16: placement.inner.apart: 'x' is not allowed: input should be a valid integer"),
        ("apart = 2", "apart = true", "16: placement.inner.apart: True is not allowed: input should be a valid"),
        (
            "apart = 2",
            "appart = 2",
            "16: placement.inner.appart: no parameter of placement 'best-fit'; did you mean apart?",
        ),
        ('"best-fit"', '"best"', "15: placement.inner.policy: unknown placement 'best'; did you mean best-fit"),
        ('policy = "best-fit"', "", "14: placement.inner: want the name of a policy, or a table with policy"),
        ("fit = 0.5", "fit = []", "13: placement.careful.fit: [] is not allowed: input should be a valid number"),
        ('"coarse"', '"rough"', "6: detection: 'rough' is not allowed; want fine or coarse"),
        (
            "seconds = 1.5",
            "second = 1.5",
            "8: retry_policy.second: no parameter of retry_policy; did you mean seconds?",
        ),
        ("fruitless = 3", "fruitless = 3.5", "8: retry_policy.fruitless: 3.5 is not allowed"),
        ("[0.5, 0.25]", "[0.5]", "9: paths: {'cold': [0.5]} is not allowed"),
        ("jobs_per_call = 4", "rng = 4", "4: rng: no parameter of a scheduler; known: kind, ordering, "),
        ('kind = "cold"', 'kind = "A b"', "2: kind: 'A b' is no kind of job; want a lower-case word"),
        ('ordering = "fifo"', "ordering = 3", "3: ordering: want the name of a policy, or a table with policy"),
        ('ordering = "fifo"', 'ordering = "fiffo"', "3: ordering: unknown ordering 'fiffo'; did you mean fifo?"),
        ('kind = "cold"', "", " kind: is missing"),
        ("jobs_per_call = 4", "jobs_per_call 4", " not readable as TOML: Expected '=' after a key"),
    ],
)
def test_complaints_say_where(old: str, new: str, said: str) -> None:
    assert old in WHOLE
    with pytest.raises(BadInput) as error:
        compose("cold.toml", WHOLE.replace(old, new))
    assert str(error.value).startswith(f"cold.toml:{said}")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.toml: cannot be read: No such file"):
        read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(BadInput, match=r"bytes\.toml: cannot be read: "):
        read(tmp_path / "bytes.toml")


def test_parameters_are_the_public_fields() -> None:
    assert parameters(Fifo) == []
    assert [(each.name, each.type) for each in parameters(Constrained)] == [
        ("inner", "placement"),
        ("careful", "placement"),
    ]
    named = {each.name: each.type for each in parameters(Scheduler)}
    assert (named["detection"], named["ordering"], named["t_job"]) == ("fine | coarse", "ordering", "float")
    assert not {"rng", "instruments", "queue", "working"} & set(named)
