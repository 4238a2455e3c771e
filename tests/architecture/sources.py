"""The project's text as the rules see it: files with their paths, Python with its names resolved."""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("cellstate", "schedulers", "omega", "cli")
FOLDERS = (*FLOORS, "benchmarks", "tests")
TEXTS = (".py", ".lua", ".md", ".toml", ".lock", ".yaml", ".yml", ".json", ".txt", ".sh", ".conf", ".service", "")


@dataclass(frozen=True)
class Source:
    """A file: its path from the project's root, with forward slashes, and its text."""

    path: str
    text: str

    @property
    def folder(self) -> str:
        """The top-level folder, which for the four floors is the package."""
        return self.path.split("/", 1)[0]

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Everything in the tree, walked once for all rules."""
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """(line, dotted name) of everything imported, anywhere in the file."""
        found: list[tuple[int, str]] = []
        for item in self.nodes:
            if isinstance(item, ast.Import):
                found += [(item.lineno, alias.name) for alias in item.names]
            elif isinstance(item, ast.ImportFrom) and item.level == 0:
                found += [(item.lineno, f"{item.module}.{alias.name}") for alias in item.names]
        return found

    @cached_property
    def origins(self) -> dict[str, str]:
        """What each imported name stands for: `np` → `numpy`, `choice` → `random.choice`."""
        origins: dict[str, str] = {}
        for item in self.nodes:
            if isinstance(item, ast.Import):
                for alias in item.names:
                    top = alias.name.split(".", 1)[0]
                    origins[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(item, ast.ImportFrom) and item.level == 0:
                origins |= {alias.asname or alias.name: f"{item.module}.{alias.name}" for alias in item.names}
        return origins

    def dotted(self, item: ast.AST) -> str:
        """The full name of `a.b.c` when `a` is imported, of `a` alone in any case; else an empty string."""
        if isinstance(item, ast.Name):
            return self.origins.get(item.id, item.id)
        if isinstance(item, ast.Attribute):
            before = self.dotted(item.value)
            known = not isinstance(item.value, ast.Name) or item.value.id in self.origins
            return f"{before}.{item.attr}" if before and known else ""
        return ""

    @cached_property
    def calls(self) -> list[tuple[ast.Call, str]]:
        """Every call with the full name of what is called."""
        return [(item, self.dotted(item.func)) for item in self.nodes if isinstance(item, ast.Call)]


def read(path: Path) -> Source:
    """The file at `path`, which lies in the project."""
    return Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


@cache
def code() -> Sequence[Source]:
    """Every Python and Lua file of the project, in order of path; read and parsed once for all rules."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))]
    return [read(path) for path in paths if path.suffix in (".py", ".lua")]


@cache
def texts() -> Sequence[Source]:
    """Every file people wrote: code, documents, settings; tables and generated files are left out."""
    folders = [ROOT / folder for folder in (*FOLDERS, "docs", "deploy", ".ci")]
    candidates = [*ROOT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
    return [
        read(path)
        for path in sorted(candidates)
        if path.is_file() and path.suffix in TEXTS and "__pycache__" not in path.parts and path.name != ".git"
    ]


def assert_kept(rule: Callable[[Source], Iterator[str]], sources: Iterable[Source]) -> None:
    """Fail the test with every finding of `rule`, a line each."""
    findings = [finding for source in sources for finding in rule(source)]
    if findings:
        pytest.fail("\n".join(findings), pytrace=False)
