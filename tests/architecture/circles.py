"""Import circles between modules, with imports in functions and below TYPE_CHECKING.

An import of the public names, `omega`, is none of these: each name is imported when it is first used. An import
contract says who may import them.
"""

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath

from tests.architecture.sources import FLOORS, Source


def import_circles(sources: Iterable[Source]) -> Iterator[str]:
    """Yield one import circle between the modules of the four floors, if there is any."""
    modules = {_module(source): source for source in sources if source.is_python and source.folder in FLOORS}
    try:
        TopologicalSorter({name: _imported(name, modules) for name in modules}).prepare()
    except CycleError as error:
        yield f"{' imports '.join(reversed(error.args[1]))}; move what both need into a module below them"


def _module(source: Source) -> str:
    """Return the import name of a file."""
    parts = PurePosixPath(source.path).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[0] == "omega" else ("omega", *parts))


def _imported(name: str, modules: Mapping[str, Source]) -> set[str]:
    """Return the modules that a module imports: of a dotted name the longest part that is one."""
    found = set[str]()
    for _, dotted in modules[name].imports:
        known = dotted
        while known and known not in modules:
            known = known.rpartition(".")[0]
        found.add(known)
    return found - {"", "omega", name}
