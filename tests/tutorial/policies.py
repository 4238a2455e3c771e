"""Every scheduler and policy that pages show, examples define or packages register, found without a list of names."""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from omega.cellstate.errors import BadInput
from omega.schedulers import registry
from omega.schedulers.composition import PROTOCOLS
from omega.schedulers.scheduler import Scheduler

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
_BLOCK = re.compile(r"^```python\n(# \w+\.py\n.*?)^```$", re.MULTILINE | re.DOTALL)
_DEFINES = re.compile(
    r"^class \w+\(omega\.(Ordering|Placement|Preemption|Sizing)\)|^\w+ = omega\.Scheduler\(", re.MULTILINE
)


def modules() -> Iterator[tuple[str, ModuleType]]:
    """The Python files of README.md, of the pages of docs/ and of docs/examples, imported; tests among them too."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for text in _BLOCK.findall(page.read_text(encoding="utf-8")):
            name = text.partition(".py")[0].removeprefix("# ")
            if not _DEFINES.search(text):
                continue
            yield f"{page.name}:{name}", _imported(name, text)
    sys.path.insert(0, str(EXAMPLES))
    try:
        for path in sorted(EXAMPLES.glob("*.py")):
            yield f"examples:{path.stem}", import_module(path.stem)
    finally:
        sys.path.remove(str(EXAMPLES))


def _imported(name: str, text: str) -> ModuleType:
    """The module of a page's file. Classes of policies look for it under its name while they are made."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        before, sys.modules[name] = sys.modules.get(name), module
        try:
            spec.loader.exec_module(module)
        finally:
            del sys.modules[name]
            if before is not None:
                sys.modules[name] = before
    return module


def schedulers() -> dict[str, Scheduler]:
    """Schedulers by where they are from; a policy that needs no parameter gets a scheduler of its own."""
    found: dict[str, Scheduler] = {}
    for where, module in modules():
        for name, value in vars(module).items():
            if isinstance(value, Scheduler):
                found[f"{where}.{name}"] = value
            elif isinstance(value, type) and value.__module__ == module.__name__:
                found |= {f"{where}.{name}": each for each in _of_policy(value)}
    for axis in (registry.SCHEDULERS, *PROTOCOLS):
        for name, offer in registry.offers(axis).items():
            target: Any = offer.load()
            if axis == registry.SCHEDULERS:
                found[f"{axis}:{name}"] = registry.made(target, name, "0")
            else:
                found |= {f"{axis}:{name}": each for each in _of_policy(target, axis)}
    return found


def _of_policy(kind: type, axis: str = "") -> Iterator[Scheduler]:
    """A scheduler with this policy; none for a class that is no policy or needs parameters."""
    axis = axis or next((name for name, base in PROTOCOLS.items() if base in kind.__mro__), "")
    if axis:
        own = Scheduler("mine")
        try:
            setattr(own, axis, kind())
        except (TypeError, BadInput):
            return
        yield own
