"""Many simulations: parameters varied over lists and ranges, run on any executor, finished ones kept."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from itertools import product
from math import isfinite
from typing import Any

from omega.cellstate.errors import BadInput, Refused
from omega.experiments.configuration import PARAMETERS, Configuration, parsed
from omega.experiments.results import Point, Record, Results, key_of, simulated
from omega.experiments.sources import program_version, sources_digest

Clock = Callable[[], float]
MOST_VALUES = 10_000


def axis(text: str) -> tuple[str, list[Any]]:
    """Return a parameter and its values: ``batch=1,2,4``, ``rate=1..10``, ``t_job_service=0.01..100:9``.

    ``a..b`` goes in steps of 1; ``a..b:n`` is n values from a to b, evenly spaced in their logarithms.
    Ranges and single values may be joined by commas. Raises BadInput.
    """
    name, equals, texts = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not texts.strip():
        raise BadInput(f"--vary {text}: want PARAMETER=VALUES, such as batch=1,2,4 or t_job_service=0.01..100:9")
    if name not in PARAMETERS:
        raise BadInput(f"--vary {text}: unknown parameter {name!r}; known: {', '.join(PARAMETERS)}")
    values: list[Any] = []
    for part in texts.split(","):
        each = _range(text, part.strip()) if ".." in part and PARAMETERS[name] in (int, float) else [part.strip()]
        values += [parsed(name, value) for value in each]
    return name, list(dict.fromkeys(values))


def _range(text: str, part: str) -> list[float]:
    low, _, rest = part.partition("..")
    high, colon, count = rest.partition(":")
    try:
        first, last = float(low), float(high)
        number = int(count) if colon else int(last - first + 1e-9) + 1
        if not (isfinite(first) and isfinite(last) and first <= last and 1 <= number <= MOST_VALUES):
            raise ValueError
        if colon and (first <= 0 or number < 2):
            raise ValueError
    except (ValueError, OverflowError):
        raise BadInput(f"--vary {text}: {part!r} is no range; want FROM..TO, or FROM..TO:COUNT from above 0") from None
    if not colon:
        return [first + i for i in range(number)]
    return [float(f"{first * (last / first) ** (i / (number - 1)):.6g}") for i in range(number)]


def grid(start: Configuration, axes: Mapping[str, Sequence[Any]]) -> list[Configuration]:
    """Return every combination of the values, the last parameter varying fastest. Raises BadInput."""
    names = list(axes)
    return [start.but(dict(zip(names, values, strict=True))) for values in product(*axes.values())]


class Sweep:
    """Configurations of which some are finished. `left` are those still to be run, each once.

    `outdated` are results of these that other code made; they are kept and not used.
    """

    def __init__(self, configurations: Sequence[Point], results: Results) -> None:
        """Look up finished simulations."""
        self.configurations, self.results = configurations, results
        unique = dict.fromkeys(configurations)
        self.left = [configuration for configuration in unique if results.get(configuration) is None]
        self.outdated = results.outdated(self.left)

    def run(
        self, executor: Executor | None, clock: Clock, finished: Callable[[Record], None] | None = None
    ) -> list[Record]:
        """Run the remaining ones; returns the records of all configurations, in order.

        Without an executor all run here, one after the other. Each is kept as soon as it is finished, so
        what an error or an interruption leaves undone is all that the next run does. Raises Refused when the
        executor's processes simulate with other code than this one.
        """
        for record in self._here(clock) if executor is None else self._there(executor, clock):
            self.results.add(record)
            if finished is not None:
                finished(record)
        self.left = []
        return self.records()

    def _here(self, clock: Clock) -> Any:
        return (simulated(configuration, clock) for configuration in self.left)

    def _there(self, executor: Executor, clock: Clock) -> Any:
        futures: dict[Future[dict[str, Any]], str] = {
            executor.submit(simulated, configuration, clock): key_of(configuration) for configuration in self.left
        }
        try:
            for future in as_completed(futures):
                record = future.result()
                if record["key"] != futures[future]:
                    raise Refused(_other_code(record))
                yield record
        finally:
            for future in futures:
                future.cancel()

    def records(self) -> list[Record]:
        """Return the records of the configurations that are finished, in their order."""
        records = (self.results.get(configuration) for configuration in self.configurations)
        return [record for record in records if record is not None]


def _other_code(record: Record) -> str:
    there, here = (record["version"], record["sources"]), (program_version(), sources_digest())
    versions = (f"Omega {version}, sources {sources}" for version, sources in (there, here))
    return "executor: its processes simulate with other code ({}) than this one ({}); install the same".format(
        *versions
    )
